import { describe, expect, it } from '@jest/globals';
import { failureOf } from './kafkajs-failures.js';

const nested = (inner: object): Error =>
  Object.assign(new Error('outer hunter2'), { name: 'KafkaJSNumberOfRetriesExceeded', cause: inner });

describe('failures of the client', () => {
  it.each([
    [{ name: 'KafkaJSProtocolError', type: 'MESSAGE_TOO_LARGE' }, 'too-large'],
    [{ name: 'KafkaJSSASLAuthenticationError' }, 'refused'],
    [{ name: 'KafkaJSProtocolError', type: 'TOPIC_AUTHORIZATION_FAILED' }, 'refused'],
    [{ name: 'KafkaJSConnectionError', code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }, 'refused'],
    [{ name: 'KafkaJSConnectionError', code: 'ECONNREFUSED' }, 'unavailable'],
    [{ name: 'KafkaJSRequestTimeoutError' }, 'unavailable'],
    [{ name: 'SomethingNew' }, 'unavailable'],
  ] as const)('are told by what lies deepest: %j is %s', (inner, kind) => {
    expect(failureOf(nested(inner)).kind).toBe(kind);
  });

  it('never quote what the client wrote', () => {
    expect(failureOf(nested(new Error('password hunter2'))).message).not.toContain('hunter2');
  });
});
