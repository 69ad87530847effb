import { describe, expect, it } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { decodeLeaves, encodeLeaves } from './leaves.js';
import type { ConsumedMessage, OutgoingMessage } from './port.js';

const consumed = ({ key, value, headers }: OutgoingMessage): ConsumedMessage => ({
  topic: 't',
  partition: 0,
  offset: 0n,
  timestamp: 0,
  key,
  value,
  headers,
});

describe('leaves of purged events', () => {
  it('come back as they were, in as many messages as they need', () => {
    const hashes = randomBytes(32 * 5_000);
    const messages = encodeLeaves({ account: 'a', first: 7n, hashes });
    const read = messages.map((message) => decodeLeaves(consumed(message)));
    expect(read.map((record) => record?.first)).toEqual([7n, 4_103n]);
    expect(Buffer.concat(read.map((record) => record?.hashes ?? Buffer.alloc(0))).equals(hashes)).toBe(true);
    expect(messages.every(({ value }) => (value?.length ?? 0) < 200_000)).toBe(true);
  });

  it.each([
    ['no headers', { value: Buffer.from('{}'), headers: {} }],
    ['no JSON', { value: Buffer.from('x'), headers: { kind: 'leaves' } }],
    ['half a hash', { value: Buffer.from('{"account":"a","first":"1","hashes":"AAAA"}'), headers: { kind: 'leaves' } }],
    ['no value', { value: null, headers: { kind: 'leaves' } }],
  ])('are not read from a message with %s', (_, message) => {
    expect(decodeLeaves(consumed({ key: 'leaves/a', ...message }))).toBeNull();
  });
});
