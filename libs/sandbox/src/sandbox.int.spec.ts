import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { ChainRun, GuestCall, HandlerOutcome, HandlerRun, Realm, Sandbox } from './index.js';
import { startSandbox } from './index.js';
import { testGuest } from './testing/guest.js';

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({});
});
afterAll(() => sandbox.close());

let plugins = 0;
const realm = (code: string, more: Partial<Realm> = {}): Realm => {
  const pluginId = `plugin-${++plugins}`;
  return {
    account: 'acme',
    pluginId,
    digest: pluginId,
    code,
    fileName: `${pluginId}.js`,
    guest: testGuest,
    setup: '{}',
    isolation: 'warm',
    ...more,
  };
};
const handler = (code: string, more: Partial<HandlerRun> = {}): HandlerRun => ({
  realm: realm(`on.it = ${code}`),
  handler: 'it',
  timeoutMs: 300,
  args: '{}',
  advances: true,
  stopsOn: ['!'],
  ...more,
});
const run = async (
  handlers: readonly HandlerRun[],
  more: Partial<ChainRun> & { value?: unknown } = {},
): Promise<HandlerOutcome[]> => {
  const chain = sandbox.run({
    account: handlers[0]?.realm.account ?? 'acme',
    invocationId: 'i',
    input: JSON.stringify({ value: more.value ?? 'a' }),
    handlers,
    onCall: () => Promise.resolve({ kind: 'value', json: '"ok"' }),
    pausingMembers: ['slow'],
    ...more,
  });
  return Promise.all(handlers.map((_, index) => chain.result(index)));
};
const raw = (outcome: HandlerOutcome | undefined): string =>
  outcome?.kind === 'returned' ? outcome.raw : JSON.stringify(outcome);

describe('a chain', () => {
  it('gives every handler the value that those before it left', async () => {
    const outcomes = await run([handler('(v) => v + "b"'), handler('async (v) => v'), handler('async (v) => v + "c"')]);
    expect(outcomes.map(raw)).toEqual(['~{"value":"ab"}\n', '=', '~{"value":"abc"}\n']);
  });

  it('answers a handler that asks the host', async () => {
    const asked: GuestCall[] = [];
    const outcomes = await run([handler('async (v, t) => (await t.ask(1, "x")) + v')], {
      onCall: (call) => {
        asked.push(call);
        return Promise.resolve({ kind: 'value', json: '"answer "' });
      },
    });
    expect(outcomes.map(raw)).toEqual(['~{"value":"answer a"}\n']);
    expect(asked.map(({ member, args, callNumber }) => ({ member, args, callNumber }))).toEqual([
      { member: 'ask', args: '[1,"x"]', callNumber: 0 },
    ]);
  });

  it('skips a loop and goes on with the value it had', async () => {
    const outcomes = await run([
      handler('(v) => v + "b"'),
      handler('() => { for (;;) {} }'),
      handler('(v) => v + "c"'),
    ]);
    expect(outcomes[1]).toMatchObject({ kind: 'failed', cause: 'timed_out', detail: 'sync', notes: '["began"]' });
    expect(raw(outcomes[2])).toBe('~{"value":"abc"}\n');
  });

  it('ends an endless wait', async () => {
    const outcomes = await run([handler('() => new Promise(() => {})'), handler('(v) => v + "c"')]);
    expect(outcomes[0]).toMatchObject({ kind: 'failed', cause: 'timed_out', detail: 'async', notes: '["began"]' });
    expect(raw(outcomes[1])).toBe('~{"value":"ac"}\n');
  });

  it('kills what cannot be interrupted, and runs the rest elsewhere', async () => {
    const outcomes = await run([
      handler('(v) => v + "b"'),
      handler('() => [].indexOf.call({ length: 2 ** 53 - 1 }, 1)'),
      handler('(v) => v + "c"'),
    ]);
    expect(raw(outcomes[0])).toBe('~{"value":"ab"}\n');
    expect(outcomes[1]).toMatchObject({ kind: 'failed', cause: 'timed_out', detail: 'killed' });
    expect(raw(outcomes[2])).toBe('~{"value":"abc"}\n');
  });
});
