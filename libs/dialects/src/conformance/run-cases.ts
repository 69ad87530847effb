import type { JsonObject } from '#record';
import { catalogue } from '../middleware/catalogue.js';
import type { Case } from './case-file.js';
import { compareCase } from './compare.js';
import type { Mismatch, Observed } from './compare.js';

/** Runs a case on the real program. What it runs is product code; it decides nothing of its own. */
export interface CaseDriver {
  run(one: Case): Promise<Observed>;
  /** Keys of the context as a handler of this hook sees them. */
  contextKeys(hook: string, context: JsonObject): Promise<readonly string[]>;
}

export interface CaseResult {
  /** The case's id, or `context keys of <hook>` for the check that belongs to no case. */
  readonly name: string;
  readonly title: string;
  readonly mismatches: readonly Mismatch[];
}

export interface Report {
  readonly passed: number;
  readonly failed: number;
  readonly lines: readonly string[];
}

/** Runs cases, `width` at a time; results come in the order of the file. A driver that throws fails its case. */
export const runCases = async (
  cases: readonly Case[],
  driver: CaseDriver,
  width: number,
): Promise<readonly CaseResult[]> => {
  const results: CaseResult[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let index = next++; index < cases.length; index = next++) {
      const one = cases[index];
      if (one !== undefined) results[index] = await runCase(one, driver);
    }
  };
  await Promise.all(Array.from({ length: width }, work));
  return results;
};

/** Checks, for every hook that a case fires, that handlers see exactly the catalogue's keys (MW-14). */
export const checkContexts = async (cases: readonly Case[], driver: CaseDriver): Promise<readonly CaseResult[]> => {
  const firsts = new Map<string, JsonObject>();
  for (const { hook, context } of cases) if (!firsts.has(hook)) firsts.set(hook, context);
  const results: CaseResult[] = [];
  for (const [hook, context] of firsts) {
    const { documented, optional } = keysOf(hook);
    const result = { name: `context keys of ${hook}`, title: 'handlers see exactly the documented keys' };
    try {
      const seen = (await driver.contextKeys(hook, context)).filter((key) => !optional.includes(key));
      const same = JSON.stringify([...seen].sort()) === JSON.stringify([...documented].sort());
      results.push({ ...result, mismatches: same ? [] : [{ field: 'keys', expected: documented, actual: seen }] });
    } catch (error) {
      results.push({ ...result, mismatches: [couldNotRun(error)] });
    }
  }
  return results;
};

/** What a person reads: each failure with what was expected and what came, then `N passed, N failed`. */
export const reportOf = (results: readonly CaseResult[]): Report => {
  const failures = results.filter(({ mismatches }) => mismatches.length > 0);
  const passed = results.length - failures.length;
  const lines = failures.flatMap(({ name, title, mismatches }) => [
    `FAILED ${name} ${title}`,
    ...mismatches.flatMap(({ field, expected, actual }) => [
      `  ${field}`,
      `    expected ${shown(expected)}`,
      `    actual   ${shown(actual)}`,
    ]),
  ]);
  return { passed, failed: failures.length, lines: [...lines, `${passed} passed, ${failures.length} failed`] };
};

const keysOf = (hook: string): { readonly documented: readonly string[]; readonly optional: readonly string[] } => {
  const context = catalogue.get(hook)?.context ?? [];
  const names = (optional: boolean) => context.filter((field) => field.optional === optional).map(({ name }) => name);
  return { documented: names(false), optional: names(true) };
};

const runCase = async (one: Case, driver: CaseDriver): Promise<CaseResult> => {
  const result = { name: one.id, title: one.title };
  if (one.strange.length > 0) {
    return {
      ...result,
      mismatches: [couldNotRun(`the case gives ${one.strange.join(', ')}, which is not known here`)],
    };
  }
  try {
    return { ...result, mismatches: compareCase(one, await driver.run(one)) };
  } catch (error) {
    return { ...result, mismatches: [couldNotRun(error)] };
  }
};

const couldNotRun = (error: unknown): Mismatch => ({
  field: 'run',
  expected: 'the case runs',
  actual: error instanceof Error ? error.message : String(error),
});

const maxShown = 2000;

const shown = (value: unknown): string => {
  const text = value === undefined ? 'nothing' : JSON.stringify(value);
  return text.length > maxShown ? `${text.slice(0, maxShown)}… (${text.length} characters)` : text;
};
