import { readFile } from 'node:fs/promises';
import {
  checkContexts,
  isKohakuFile,
  isOpenClawFile,
  readCaseFile,
  readKohakuFile,
  readOpenClawFile,
  reportOf,
  runCases,
  runKohakuCases,
  runOpenClawCases,
} from '#dialects';
import type { Case, CaseResult, KohakuCase, OpenClawCase, OpenClawResult } from '#dialects';
import { startSandbox } from '#sandbox';
import type { Sandbox } from '#sandbox';
import { caseDriver } from './case-driver.js';
import { kohakuDriver } from './kohaku-driver.js';
import { openclawDriver } from './openclaw-driver.js';

/** Cases that run at the same time: those that wait out a limit should not wait for each other. */
const width = 4;

/**
 * `hookledger conformance FILE…`: runs case files on the real engine and sandbox. Prints each failure with what was
 * expected and what came, then `N passed, N failed`. The exit code is 0 when nothing failed and something ran.
 */
export const conformance = async (paths: readonly string[]): Promise<number> => {
  if (paths.length === 0) return misused('name one or more case files: npm run conformance -- FILE…');
  const cases: Case[] = [];
  const openclaw: OpenClawCase[] = [];
  const kohaku: KohakuCase[] = [];
  for (const path of paths) {
    const text = await readFile(path, 'utf8').catch(() => null);
    if (text === null) return misused(`${path} cannot be read`);
    const file = readFormat(text);
    if (file.kind === 'refused') return misused(`${path} is not a case file of this runner: ${file.reason}`);
    for (const one of file.cases) {
      if ('driver' in one) kohaku.push(one);
      else if ('level' in one) openclaw.push(one);
      else cases.push(one);
    }
  }
  const sandbox = await startSandbox({ maxChildren: width + 1 });
  try {
    const results = [
      ...(await middlewareResults(cases, sandbox)),
      ...(await openclawResults(openclaw, sandbox)),
      ...(await runKohakuCases(kohaku, kohakuDriver(sandbox, accounts), width)),
    ];
    const report = reportOf(results);
    for (const line of report.lines) console.log(line);
    return report.failed === 0 && report.passed > 0 ? 0 : 1;
  } finally {
    await sandbox.close();
  }
};

const accounts = Array.from({ length: width }, (_, index) => `conformance-${index}`);

const middlewareResults = async (cases: readonly Case[], sandbox: Sandbox): Promise<readonly CaseResult[]> => {
  if (cases.length === 0) return [];
  const driver = caseDriver(sandbox, accounts);
  const results = await runCases(cases, driver, width);
  const contexts = await checkContexts(cases, driver);
  const broken = contexts.filter(({ mismatches }) => mismatches.length > 0);
  console.log(`context keys: ${contexts.length - broken.length} of ${contexts.length} hooks as documented`);
  return [...results, ...broken];
};

/** Skipped cases are named and counted apart: they neither passed nor failed. */
const openclawResults = async (cases: readonly OpenClawCase[], sandbox: Sandbox): Promise<readonly CaseResult[]> => {
  if (cases.length === 0) return [];
  const results = await runOpenClawCases(cases, openclawDriver(sandbox, accounts), width);
  const isSkipped = ({ state }: OpenClawResult): boolean => state === 'skipped';
  for (const { name, title } of results.filter(isSkipped)) console.log(`SKIPPED ${name} ${title} (sharedMutation)`);
  console.log(`openclaw: ${results.filter(isSkipped).length} skipped, sharedMutation`);
  return results.filter((result) => !isSkipped(result));
};

/** A file's cases by the format that it has. */
const readFormat = (text: string) => {
  if (isKohakuFile(text)) return readKohakuFile(text);
  return isOpenClawFile(text) ? readOpenClawFile(text) : readCaseFile(text);
};

const misused = (words: string): number => {
  console.error(words);
  return 2;
};
