import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Json } from '#record';
import { catalogue } from './catalogue.js';
import { middleware } from './middleware.js';

const read = (hook: string, raw: string, value: Json) => middleware.read(hook, raw, value);
const unreadable = {
  verdict: { kind: 'skipped', cause: 'malformed' },
  warnings: [{ code: 'handler_malformed', detail: 'unreadable' }],
};
const sending = { command: 'ls', path: null, content: null };

describe('an honest result', () => {
  it('is read into a verdict and its warnings', () => {
    expect(read('userMessageInbound', '=', 'a')).toEqual({ verdict: { kind: 'passed' }, warnings: [] });
    expect(read('sessionClearing', '.', null)).toEqual({ verdict: { kind: 'observed' }, warnings: [] });
    expect(read('userMessageInbound', '~{"text":"b"}\n[["unknown_key","x"]]', 'a')).toEqual({
      verdict: { kind: 'rewrote', value: 'b', changed: ['text'] },
      warnings: [{ code: 'unknown_key', detail: 'x' }],
    });
    expect(read('sshCommandSending', '~{"command":"ls -l"}\n', sending)).toEqual({
      verdict: { kind: 'rewrote', value: { command: 'ls -l', path: null, content: null }, changed: ['command'] },
      warnings: [],
    });
    expect(read('userMessageInbound', '!"no"\n', 'a').verdict).toEqual({ kind: 'cancelled', reason: 'no', code: null });
    expect(read('userMessageInbound', '!null\n', 'a').verdict).toEqual({ kind: 'cancelled', reason: null, code: null });
  });

  it.each([
    ['handler_threw', 'threw'],
    ['handler_malformed', 'malformed'],
    ['handler_crashed', 'crashed'],
  ])('%s is skipped as %s', (code, cause) => {
    expect(read('userMessageInbound', `?[["cancel_not_returned"],["${code}","d"]]`, 'a')).toEqual({
      verdict: { kind: 'skipped', cause },
      warnings: [
        { code: 'cancel_not_returned', detail: null },
        { code, detail: 'd' },
      ],
    });
  });

  it('that gives the value it had is passed', () => {
    expect(read('userMessageInbound', '~{"text":"a"}\n', 'a').verdict.kind).toBe('passed');
  });
});

describe('a realm that was taken over', () => {
  it.each([
    ['userMessageInbound', '', 'a'],
    ['userMessageInbound', 'x', 'a'],
    ['userMessageInbound', '.', 'a'],
    ['userMessageInbound', '~', 'a'],
    ['userMessageInbound', '~{}\n', 'a'],
    ['userMessageInbound', '~{"text":5}\n', 'a'],
    ['userMessageInbound', '~{"text":null}\n', 'a'],
    ['userMessageInbound', '~{"text":"b","sessionId":"2"}\n', 'a'],
    ['userMessageInbound', '~{"__proto__":{"text":"b"}}\n', 'a'],
    ['userMessageInbound', '~["b"]\n', 'a'],
    ['todoAdded', '~{"texts":"b"}\n', ['a']],
    ['todoAdded', '~{"texts":["b",1]}\n', ['a']],
    ['todoAdded', `~{"texts":${JSON.stringify(Array.from({ length: 1001 }, () => ''))}}\n`, ['a']],
    ['notifyScheduled', '~{"delaySeconds":-1}\n', { message: 'm', delaySeconds: 1 }],
    ['notifyScheduled', '~{"delaySeconds":1e400}\n', { message: 'm', delaySeconds: 1 }],
    ['notifyScheduled', '~{"delaySeconds":"5"}\n', { message: 'm', delaySeconds: 1 }],
    ['notifyScheduled', '~{"delaySeconds":-0}\n', { message: 'm', delaySeconds: 1 }],
    ['sshCommandSending', '~{"content":"x"}\n', sending],
    ['sshCommandSending', '~{"command":null}\n', sending],
    ['systemPrompt', '!"no"\n', 'a'],
    ['sessionClearing', '!"no"\n', null],
    ['sessionClearing', '=', null],
    ['sessionClearing', '~{"sessionId":"2"}\n', null],
    ['userMessageInbound', '!5\n', 'a'],
    ['userMessageInbound', `!${JSON.stringify('x'.repeat(501))}\n`, 'a'],
    ['userMessageInbound', '?', 'a'],
    ['userMessageInbound', '?[["unknown_key"]]', 'a'],
  ])('cannot get a wrong result through: %s %s', (hook, raw, value) => {
    expect(read(hook, raw, value).verdict).toEqual({ kind: 'skipped', cause: 'malformed' });
    expect(read(hook, raw, value).warnings.at(-1)).toEqual(unreadable.warnings[0]);
  });

  it('cannot get a result through that is too large', () => {
    const raw = `~${JSON.stringify({ text: '€'.repeat(3 * 1024 * 1024) })}\n`;
    expect(read('userMessageInbound', raw, 'a')).toEqual(unreadable);
  });

  it('cannot invent warnings, nor pass with one that skips', () => {
    expect(read('userMessageInbound', '=[["made_up","x"],["constructor"],["handler_threw","x"],5,null]', 'a')).toEqual({
      verdict: { kind: 'passed' },
      warnings: [],
    });
    expect(read('userMessageInbound', '=not json', 'a').warnings).toEqual([]);
  });

  it('is read without a throw, and never changes more than the mutable fields', () => {
    const tags = fc.constantFrom('=', '~', '!', '.', '?', '', 'x');
    const rest = fc.oneof(
      fc.string(),
      fc.json(),
      fc.json().map((text) => `${text}\n`),
      fc.json().map((text) => `${text}\n[["unknown_key"]]`),
    );
    fc.assert(
      fc.property(fc.constantFrom(...catalogue.values()), tags, rest, (hook, tag, text) => {
        const value: Json = hook.mutable.length === 0 ? null : hook.mutable.length === 1 ? 'a' : sending;
        const { verdict } = read(hook.name, `${tag}${text}`, value);
        expect(['passed', 'rewrote', 'cancelled', 'observed', 'skipped']).toContain(verdict.kind);
        if (verdict.kind === 'rewrote') expect(verdict.changed.every((name) => hook.mutable.includes(name))).toBe(true);
        if (verdict.kind === 'cancelled') expect(hook.vetoable).toBe(true);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('failures outside the guest', () => {
  it('have the words of the dialect (MW-54)', () => {
    expect(middleware.failure('timed_out', 'sync')).toEqual({ code: 'handler_timeout', detail: 'sync' });
    expect(middleware.failure('crashed', 'memory')).toEqual({ code: 'handler_crashed', detail: 'memory' });
  });

  it('keep what the handler had noted', () => {
    expect(middleware.readNotes('userMessageInbound', '[["ssh_timeout_clamped"],["cancel_not_returned"]]')).toEqual([
      { code: 'ssh_timeout_clamped', detail: null },
      { code: 'cancel_not_returned', detail: null },
    ]);
    expect(middleware.readNotes('userMessageInbound', '')).toEqual([]);
  });
});

describe('what ends a chain', () => {
  it('is a cancel where there can be one, and not having decided where that closes', () => {
    expect(middleware.stopTags('userMessageInbound', 'open')).toEqual(['!']);
    expect(middleware.stopTags('userMessageInbound', 'closed')).toEqual(['!', '?', 'failed']);
    expect(middleware.stopTags('systemPrompt', 'closed')).toEqual([]);
  });
});
