import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { ChainRun, HandlerOutcome, HandlerRun, Realm, Sandbox } from '../sandbox.js';
import { startSandbox } from '../start-sandbox.js';

/** Runs what the plugin's module names `handle`; text that comes back is the raw result. */
const guest = String.raw`
import inspect
class Guest:
    def __init__(self, kit, code, name, setup):
        self.kit = kit
        self.space = {'__name__': 'plugin'}
        exec(compile(code, name, 'exec'), self.space)
    def report(self):
        return self.kit.dumps(sorted(key for key in self.space if key.startswith('handle')))
    async def call(self, run, handler, value, args):
        self.space['run'] = run
        try:
            found = self.space[handler](value)
            if inspect.isawaitable(found):
                found = await found
        except Exception as error:
            return '?' + self.kit.dumps([type(error).__name__, str(error)[:300]])
        if isinstance(found, dict):
            return '~' + self.kit.dumps(found)
        return '=' if found is None else '+' + str(found)
def make(kit, code, name, setup):
    return Guest(kit, code, name, setup)
`;

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({ pythonMiB: 96 });
}, 60_000);
afterAll(() => sandbox.close());

let realms = 0;
const realmOf = (code: string, more: Partial<Realm> = {}): Realm => {
  realms += 1;
  return {
    account: 'a',
    pluginId: `p${String(realms)}`,
    digest: `d${String(realms)}`,
    code,
    fileName: 'plugin.py',
    guest,
    setup: '{}',
    isolation: 'warm',
    language: 'python',
    ...more,
  };
};

const handlerOf = (realm: Realm, more: Partial<HandlerRun> = {}): HandlerRun => ({
  realm,
  handler: 'handle',
  timeoutMs: 2000,
  args: '{}',
  advances: true,
  stopsOn: [],
  ...more,
});

const calls: unknown[] = [];
const chainOf = (handlers: readonly HandlerRun[], more: Partial<ChainRun> = {}): ChainRun => ({
  account: 'a',
  invocationId: 'i',
  input: '{"value":1}',
  handlers,
  onCall: (call) => {
    calls.push([call.member, call.args]);
    return Promise.resolve({ kind: 'value', json: '7' });
  },
  pausingMembers: [],
  ...more,
});

const run = (realm: Realm, more: Partial<HandlerRun> = {}, chain: Partial<ChainRun> = {}): Promise<HandlerOutcome> =>
  sandbox.run(chainOf([handlerOf(realm, more)], chain)).result(0);

const raw = async (code: string): Promise<string> => {
  const outcome = await run(realmOf(code));
  return outcome.kind === 'returned' ? outcome.raw : JSON.stringify(outcome);
};

describe('Python in the sandbox', () => {
  it('is loaded and reported', async () => {
    const outcome = await sandbox.load(realmOf('def handle(value): pass\ndef handle_more(value): pass'), 5000);
    expect(outcome).toMatchObject({ kind: 'loaded', report: '["handle","handle_more"]' });
  }, 60_000);

  it('says where a source does not parse, and what it threw at load', async () => {
    expect(await sandbox.load(realmOf('x = 1\ndef f(:\n  pass'), 5000)).toMatchObject({
      kind: 'failed',
      cause: 'syntax',
      line: 2,
    });
    expect(await sandbox.load(realmOf('x = 1\nraise ValueError("no")'), 5000)).toMatchObject({
      kind: 'failed',
      cause: 'threw',
      message: 'ValueError: no',
      line: 2,
    });
  }, 60_000);

  it('keeps what its module holds from call to call', async () => {
    const realm = realmOf('n = 0\ndef handle(value):\n  global n\n  n += 1\n  return str(n)');
    expect([await run(realm), await run(realm)]).toMatchObject([{ raw: '+1' }, { raw: '+2' }]);
  }, 60_000);

  it('carries text without loss', async () => {
    const text = 'a\0b\u2028c\ud800d\udc00e😀é';
    const input = JSON.stringify({ value: text });
    const outcome = await run(realmOf('def handle(value): return {"value": value["value"]}'), {}, { input });
    expect(outcome.kind === 'returned' ? JSON.parse(outcome.raw.slice(1)) : outcome).toEqual({ value: text });
  }, 60_000);

  it('awaits sleeps, gathers and the host', async () => {
    calls.length = 0;
    const code = `import asyncio
async def handle(value):
    run.emit('log', ['info', 'before'])
    async def nap(n):
        await asyncio.sleep(0.01)
        return n
    a, b = await asyncio.gather(nap(1), nap(2))
    try:
        await asyncio.wait_for(asyncio.sleep(10), 0.02)
    except asyncio.TimeoutError:
        c = 3
    return str([a, b, c, await run.call('ask', ['x'])])`;
    expect(await raw(code)).toBe('+[1, 2, 3, 7]');
    expect(calls).toEqual([
      ['log', '["info","before"]'],
      ['ask', '["x"]'],
    ]);
  }, 60_000);

  it('serves calls of one plugin side by side while they wait', async () => {
    const realm = realmOf(`import asyncio
inside = most = 0
async def handle(value):
    global inside, most
    inside += 1
    most = max(most, inside)
    await run.call('ask', [])
    inside -= 1
    return str(most)`);
    let release: () => void = () => undefined;
    const opened = new Promise<void>((resolve) => {
      release = resolve;
    });
    let asked = 0;
    const onCall = async () => {
      asked += 1;
      if (asked === 3) release();
      await opened;
      return { kind: 'value', json: 'null' } as const;
    };
    const outcomes = await Promise.all([1, 2, 3].map(() => run(realm, {}, { onCall })));
    expect(outcomes).toMatchObject([{ raw: '+3' }, { raw: '+3' }, { raw: '+3' }]);
  }, 60_000);

  it('runs a chain of both languages on the value that each one left', async () => {
    const script: Realm = {
      ...realmOf('', { language: 'javascript' }),
      guest: `(function (kit, setup) { return { report() { return '{}' }, call(h, input, patches, args, run) {
        let value = kit.JSON.parse(input).value; for (const patch of kit.JSON.parse(patches)) value = patch.value;
        run.done('~' + kit.JSON.stringify({ value: value + 'j' })); } }; })`,
    };
    const python = realmOf('def handle(value): return {"value": value["value"] + "p"}');
    const running = sandbox.run(
      chainOf([handlerOf(script), handlerOf(python), handlerOf(script), handlerOf(script)], { input: '{"value":""}' }),
    );
    const outcomes = await Promise.all([0, 1, 2, 3].map((index) => running.result(index)));
    expect(outcomes.map((outcome) => (outcome.kind === 'returned' ? outcome.raw : outcome.kind))).toEqual([
      '~{"value":"j"}',
      '~{"value":"jp"}',
      '~{"value":"jpj"}',
      '~{"value":"jpjj"}',
    ]);
  }, 60_000);
});
