import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { readKohakuFile, runKohakuCases, type KohakuCase } from '#dialects';
import { startSandbox } from '#sandbox';
import type { Sandbox } from '#sandbox';
import { kohakuDriver } from './kohaku-driver.js';

const width = 2;
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({});
});
afterAll(() => sandbox.close());

const imports = 'from kohakuterrarium.modules.plugin import BasePlugin, PluginBlockError\n';
const python = (body: string): string => `${imports}class P(BasePlugin):\n${body}`;
const plugin = (name: string, body: string, more: object = {}): object => ({
  name,
  priority: null,
  python: python(body),
  ...more,
});

const tool = {
  driver: 'wrap_tool',
  tool_name: 't',
  args: { a: 0 },
  tool: { returns: { output: 'done', exit_code: 0 } },
};

const read = (cases: readonly object[]): readonly KohakuCase[] => {
  const file = readKohakuFile(JSON.stringify({ drivers: {}, cases }));
  if (file.kind === 'refused') throw new Error(file.reason);
  return file.cases;
};

const run = (cases: readonly object[]) => runKohakuCases(read(cases), kohakuDriver(sandbox, ['koh-1', 'koh-2']), width);

describe('Kohaku cases', () => {
  it('hold under both profiles where they agree, in Python and JavaScript', async () => {
    const results = await run([
      {
        id: 'edit-in-place',
        hook: 'pre_tool_execute',
        plugins: [plugin('p', '    async def pre_tool_execute(self, args, **kw): args["b"] = 1\n')],
        input: tool,
        expected: {
          outcome: 'result',
          tool_saw: { a: 0, b: 1 },
          result: { output: 'done', exit_code: 0, error: null },
        },
      },
      {
        id: 'js-block',
        hook: 'pre_tool_execute',
        plugins: [
          {
            name: 'js',
            priority: 10,
            javascript: 'export default { pre_tool_execute() { LOG.push("js"); throw new PluginBlockError("no"); } };',
          },
          plugin('p', '    async def pre_tool_execute(self, args, **kw): LOG.append("p")\n'),
        ],
        input: tool,
        expected: { outcome: 'blocked', message: 'no', tool_saw: null, log: ['js'] },
      },
      {
        id: 'unload',
        hook: 'on_unload',
        plugins: [
          plugin('a', '    async def on_unload(self): LOG.append("a")\n', { priority: 1 }),
          plugin('b', '    async def on_unload(self): LOG.append("b")\n', { priority: 2, disabled: true }),
        ],
        input: { driver: 'lifecycle', steps: ['load_all', 'unload_all'] },
        expected: { log: ['b', 'a'] },
      },
    ]);
    expect(results.map(({ name }) => name)).toEqual([
      'edit-in-place (2.1)',
      'edit-in-place (documented)',
      'js-block (2.1)',
      'js-block (documented)',
      'unload (2.1)',
    ]);
    expect(results.flatMap(({ name, mismatches }) => mismatches.map((one) => ({ name, ...one })))).toEqual([]);
  }, 180_000);

  it('fail when the program does something else than they expect', async () => {
    const [result] = await run([
      {
        id: 'x',
        hook: 'on_load',
        plugins: [],
        input: { driver: 'run_pre', hook: 'pre_llm_call', value: [] },
        expected: { outcome: 'blocked' },
      },
    ]);
    expect(result?.mismatches).toMatchObject([{ field: 'outcome', expected: 'blocked', actual: 'value' }]);
  }, 60_000);

  it('are refused with the reason when they cannot be read', () => {
    expect(readKohakuFile('{}')).toMatchObject({ kind: 'refused' });
    expect(readKohakuFile('{"cases":[{"id":"x","input":{},"expected":{}}]}')).toEqual({
      kind: 'refused',
      reason: 'x names no driver',
    });
  });
});
