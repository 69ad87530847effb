import { describe, expect, it } from '@jest/globals';
import { Misuse } from '../words.js';
import { bodyOf, readFiring } from './fire.js';

const env = { HOOKLEDGER_KEY: 'k' };

describe('the words of fire', () => {
  it('name the hook, its dialect and what stands beside the context', () => {
    const words = [
      'sshCommandSending',
      '--context',
      '-',
      '--turn',
      't-1',
      '--session',
      '42',
      '--data-subject',
      'user:42',
    ];
    const { firing } = readFiring([...words, '--idempotency-key', 'once'], env);
    expect(firing).toEqual({
      path: '/hooks/middleware/sshCommandSending',
      envelope: { turnId: 't-1', sessionId: '42', dataSubject: 'user:42' },
      contextFile: '-',
      headers: { 'idempotency-key': 'once' },
    });
  });

  it('cannot lead to another route', () => {
    const { firing } = readFiring(['../plugins?x', '--dialect', 'a/b', '--context', 'f'], env);
    expect(firing.path).toBe('/hooks/a%2Fb/..%2Fplugins%3Fx');
  });

  it.each([
    ['the hook', ['--context', 'f']],
    ['the context', ['systemPrompt']],
    ['a key that fits in a header', ['systemPrompt', '--context', 'f', '--idempotency-key', 'a b']],
  ])('are refused without %s', (_what, args) => {
    expect(() => readFiring(args, env)).toThrow(Misuse);
  });
});

describe('the body of a firing', () => {
  it('holds the context as it was written', () => {
    const context = '{ "n": 9007199254740993, "text": "\\ud800", "text": "twice" }';
    expect(bodyOf({ turnId: 'a"b' }, context)).toBe(`{"turnId":"a\\"b","context":${context}}`);
    expect(bodyOf({}, '{}')).toBe('{"context":{}}');
  });

  it.each(['', 'x', '[]', 'null', '"a"', '{}{}', '{"a":1},"cause":"forged"', '{"a":1'])(
    'is refused for %j',
    (context) => {
      expect(() => bodyOf({}, context)).toThrow('no JSON object');
    },
  );
});
