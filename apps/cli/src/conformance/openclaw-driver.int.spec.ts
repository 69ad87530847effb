import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { readOpenClawFile, runOpenClawCases } from '#dialects';
import type { OpenClawCase } from '#dialects';
import { startSandbox } from '#sandbox';
import type { Sandbox } from '#sandbox';
import { openclawDriver } from './openclaw-driver.js';

const width = 4;
const accounts = Array.from({ length: width }, (_, index) => `claw-${String(index)}`);

let sandbox: Sandbox;
let cases: readonly OpenClawCase[];
beforeAll(async () => {
  sandbox = await startSandbox({ maxChildren: width + 1 });
  const file = readOpenClawFile(await readFile('test/cases/openclaw-further.json', 'utf8'));
  if (file.kind === 'refused') throw new Error(file.reason);
  cases = file.cases;
});
afterAll(() => sandbox.close());

const run = (some: readonly OpenClawCase[]) => runOpenClawCases(some, openclawDriver(sandbox, accounts), width);
const named = (id: string): OpenClawCase => {
  const found = cases.find((one) => one.id === id);
  if (found === undefined) throw new Error(id);
  return found;
};

describe('OpenClaw cases', () => {
  it('hold under both exact profiles, on the real bundler, sandbox, engine and log', async () => {
    const results = await run(cases);
    expect(results.filter(({ state }) => state !== 'passed')).toEqual([]);
    expect(results.length).toBeGreaterThan(250);
  }, 120_000);

  it('fail when the program does something else than they expect', async () => {
    const wrong: OpenClawCase = {
      ...named('btc-01'),
      expected: {
        '2026.7': { kind: 'expected', value: { result: { block: true }, called: ['x'] } },
        '2026.9': { kind: 'none' },
      },
    };
    const [result] = await run([wrong]);
    expect([result?.state, result?.mismatches.map(({ field }) => field)]).toEqual(['failed', ['result', 'called']]);
  });

  it('say which hooks a version does not have', async () => {
    const absent: OpenClawCase = {
      ...named('btc-01'),
      expected: { '2026.7': { kind: 'absent' }, '2026.9': { kind: 'none' } },
    };
    expect((await run([absent])).map(({ state }) => state)).toEqual(['failed']);
    expect((await run([{ ...absent, hook: 'skill_changed' }])).map(({ state }) => state)).toEqual(['passed']);
  });

  it('that look at shared edits are skipped, and are no passes', async () => {
    const results = await run([{ ...named('btc-01'), sharedMutation: true }]);
    expect(results.map(({ state }) => state)).toEqual(['skipped', 'skipped']);
  });
});
