import { readFile } from 'node:fs/promises';
import { checkContexts, readCaseFile, reportOf, runCases } from '#dialects';
import type { Case } from '#dialects';
import { startSandbox } from '#sandbox';
import { caseDriver } from './case-driver.js';

/** Cases that run at the same time: those that wait out a limit should not wait for each other. */
const width = 4;

/**
 * `hookledger conformance FILE…`: runs case files on the real engine and sandbox. Prints each failure with what was
 * expected and what came, then `N passed, N failed`. The exit code is 0 when nothing failed and something ran.
 */
export const conformance = async (paths: readonly string[]): Promise<number> => {
  if (paths.length === 0) return misused('name one or more case files: npm run conformance -- FILE…');
  const cases: Case[] = [];
  for (const path of paths) {
    const text = await readFile(path, 'utf8').catch(() => null);
    if (text === null) return misused(`${path} cannot be read`);
    const file = readCaseFile(text);
    if (file.kind === 'refused') return misused(`${path} is not a case file of this runner: ${file.reason}`);
    cases.push(...file.cases);
  }
  const sandbox = await startSandbox({ maxChildren: width + 1 });
  try {
    const driver = caseDriver(
      sandbox,
      Array.from({ length: width }, (_, index) => `conformance-${index}`),
    );
    const results = await runCases(cases, driver, width);
    const contexts = await checkContexts(cases, driver);
    const broken = contexts.filter(({ mismatches }) => mismatches.length > 0);
    console.log(`context keys: ${contexts.length - broken.length} of ${contexts.length} hooks as documented`);
    const report = reportOf([...results, ...broken]);
    for (const line of report.lines) console.log(line);
    return report.failed === 0 && report.passed > 0 ? 0 : 1;
  } finally {
    await sandbox.close();
  }
};

const misused = (words: string): number => {
  console.error(words);
  return 2;
};
