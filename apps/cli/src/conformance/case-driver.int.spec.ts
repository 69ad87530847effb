import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { checkContexts, readCaseFile, reportOf, runCases } from '#dialects';
import type { Case } from '#dialects';
import { startSandbox } from '#sandbox';
import type { Sandbox } from '#sandbox';
import { caseDriver } from './case-driver.js';

const width = 4;
const accounts = Array.from({ length: width }, (_, index) => `cases-${index}`);

let sandbox: Sandbox;
let cases: readonly Case[];
beforeAll(async () => {
  sandbox = await startSandbox({ maxChildren: width + 1 });
  const file = readCaseFile(await readFile('test/cases/middleware-further.json', 'utf8'));
  if (file.kind === 'refused') throw new Error(file.reason);
  cases = file.cases;
});
afterAll(() => sandbox.close());

const run = async (some: readonly Case[]) => reportOf(await runCases(some, caseDriver(sandbox, accounts), width));

describe('conformance cases', () => {
  it('hold on the real engine, sandbox and log', async () => {
    const report = await run(cases);
    expect(report.lines).toEqual([`${cases.length} passed, 0 failed`]);
  }, 60_000);

  it('fail when the program does something else than they expect', async () => {
    const [first] = cases;
    if (first === undefined) throw new Error('no cases');
    const wrong = { ...first, expected: { ...first.expected, value: ['other'], meteredHandlers: 7 } };
    const report = await run([wrong]);
    expect(report).toMatchObject({ passed: 0, failed: 1 });
    expect(report.lines).toEqual(expect.arrayContaining(['  value', '  meteredHandlers']));
  });

  it('fail when they ask for an operation that the catalogue does not know', async () => {
    const [first] = cases;
    if (first === undefined) throw new Error('no cases');
    const strange = { ...first, given: { ...first.given, gate: 'full_moon' } };
    expect((await run([strange])).failed).toBe(1);
  });

  it('see the documented keys in every context', async () => {
    const results = await checkContexts(cases, caseDriver(sandbox, accounts));
    expect(results.filter(({ mismatches }) => mismatches.length > 0)).toEqual([]);
    expect(results.length).toBeGreaterThan(10);
  });
});
