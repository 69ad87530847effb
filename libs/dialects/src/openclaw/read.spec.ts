import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Json } from '#record';
import { catalogue } from './catalogue.js';
import { profiles } from './profiles.js';
import { readResult } from './read.js';
import type { ReadAs } from './read.js';

const read = (
  hook: string,
  raw: string,
  value: Json = null,
  profile = profiles.documented,
  readAs: ReadAs | null = null,
) => {
  const known = catalogue.get(hook);
  if (known === undefined) throw new Error(hook);
  return readResult(known, profile, raw, value, readAs);
};

describe('a result of a handler', () => {
  it('is never believed: whatever comes is a verdict, and nothing throws', () => {
    const raws = fc.oneof(
      fc.string(),
      fc
        .tuple(
          fc.constantFrom('=', '.', '+', '!', '~', '^', '?', '-', ''),
          fc.oneof(fc.json(), fc.string()),
          fc.json(),
          fc.json(),
        )
        .map(([tag, ...rest]) => tag + rest.join('\n')),
    );
    fc.assert(
      fc.property(fc.constantFrom(...catalogue.keys()), raws, (hook, raw) => {
        const { verdict, warnings } = read(hook, raw);
        expect(typeof verdict.kind).toBe('string');
        expect(warnings.every(({ code }) => code !== '')).toBe(true);
      }),
    );
  });

  it.each([
    ['agent_end', '='],
    ['before_tool_call', '.'],
    ['before_tool_call', '^{"handled":true}'],
    ['before_agent_reply', '^{"handled":false}'],
    ['before_agent_reply', '+{"reply":1}'],
    ['tool_result_persist', '!null'],
    ['before_message_write', '~{"message":null}\nnull\n'],
    ['before_tool_call', '+[1]'],
    ['before_tool_call', 'nothing of ours'],
  ])('of %s that says %j is malformed', (hook, raw) => {
    expect(read(hook, raw).verdict).toEqual({ kind: 'skipped', cause: 'malformed' });
  });

  it('has only the fields that the catalogue knows, and a null says nothing', () => {
    const { verdict } = read(
      'before_tool_call',
      '+{"params":{"a":1},"blockReason":null,"evil":1,"__proto__":{"block":true}}\n',
    );
    expect(verdict).toEqual({ kind: 'contributed', value: { params: { a: 1 } }, changed: ['params'], as: 'rewrote' });
  });

  it.each([
    ['{"block":true}', 'cancelled'],
    ['{"block":1}', 'passed'],
    ['{"requireApproval":{"title":"t"}}', 'held'],
    ['{"params":{}}', 'rewrote'],
    ['{}', 'passed'],
  ])('of a tool hook that gives %s is in itself %s', (given, as) => {
    expect(read('before_tool_call', `+${given}\n`).verdict).toMatchObject({ kind: 'contributed', as });
  });

  it('of a run gate that is no decision blocks, also when the realm says otherwise', () => {
    const { verdict } = read('before_agent_run', '+{"outcome":"pass","decision":{"outcome":"pass","note":1}}\n');
    expect(verdict).toMatchObject({ value: { outcome: 'block', decision: { outcome: 'block' } }, as: 'cancelled' });
  });

  it('cannot grant a payload trust, and loses it with other media', () => {
    const value = { payload: { mediaUrl: 'file:///a', trustedLocalMedia: true } };
    const payloadOf = (payload: object) => {
      const { verdict } = read('reply_payload_sending', `~{"payload":{}}\n${JSON.stringify({ payload })}\n`, value);
      return verdict.kind === 'contributed' ? verdict.value : null;
    };
    expect(payloadOf({ text: 'x', mediaUrl: 'file:///a' })).toEqual({
      payload: { text: 'x', mediaUrl: 'file:///a', trustedLocalMedia: true },
    });
    expect(payloadOf({ mediaUrl: 'file:///b', trustedLocalMedia: true })).toEqual({
      payload: { mediaUrl: 'file:///b' },
    });
  });

  it('names the variables that the host will drop, and keeps the values out of it', () => {
    const { warnings } = read('resolve_exec_env', '+{"env":{"PATH":"/secret","OK":"1"}}\n');
    expect(warnings).toEqual([{ code: 'env_key_dropped', detail: 'PATH' }]);
  });

  it('has metadata within bounds in the documented profile, and without any in the exact ones', () => {
    const raw = `+${JSON.stringify({ cancel: true, metadata: { blob: 'x'.repeat(20_000) } })}\n`;
    expect(read('message_sending', raw)).toMatchObject({
      verdict: { value: { cancel: true } },
      warnings: [{ code: 'metadata_too_large' }],
    });
    expect(read('message_sending', raw, null, profiles['2026.7']).warnings).toEqual([]);
  });

  it('is stripped of prompts where they are not allowed, whatever the realm sends', () => {
    const raw = '+{"systemPrompt":"s","modelOverride":"m"}\n';
    const stripped = (text: string) =>
      read('before_agent_start', text, null, profiles['2026.7'], 'without-prompts').verdict;
    expect(stripped(raw)).toMatchObject({ value: { modelOverride: 'm' }, changed: ['modelOverride'] });
    expect(stripped('+{"systemPrompt":"s"}\n')).toEqual({ kind: 'passed' });
  });
});
