import { sameJson } from '#hooks';
import type { Json, JsonObject } from '#record';

/** A conformance case of the OpenClaw dialect; the file's own `meta` says what each field means. */
export interface OpenClawCase {
  readonly id: string;
  readonly hook: string;
  readonly title: string;
  readonly level: OpenClawLevel;
  readonly handlers: readonly CaseHandler[];
  readonly trustedPolicies: readonly CasePolicy[];
  readonly event: JsonObject;
  readonly context: JsonObject;
  /** One entry per prompt. */
  readonly approvals: readonly CaseApproval[];
  readonly approvalMode: string | null;
  readonly repeat: number | null;
  /** The plugin that is asked, and what is known of plugins (`claim-targeted`). */
  readonly target: string | null;
  readonly plugins: readonly { readonly id: string; readonly status: string }[];
  readonly steps: readonly JsonObject[];
  readonly setup: JsonObject;
  /** Body of a function of the result `r`. */
  readonly project: string | null;
  readonly compareOnly: readonly string[] | null;
  readonly compareAskedOnly: readonly string[] | null;
  /** It asserts that handlers see each other edit the event: not so here. */
  readonly sharedMutation: boolean;
  readonly expected: { readonly [version in CaseVersion]: CaseExpectation };
}

export const openclawLevels = [
  'runner',
  'runner-library-default',
  'gate',
  'claim-targeted',
  'finalize-host',
  'exec-env-filter',
  'details-cap',
  'block-message',
  'legacy-strip',
  'next-turn-injection',
  'registration',
] as const;

export type OpenClawLevel = (typeof openclawLevels)[number];
export type CaseVersion = '2026.7' | '2026.9';

export type CaseExpectation =
  | { readonly kind: 'expected'; readonly value: Json }
  /** The version does not have the hook: that is what is checked. */
  | { readonly kind: 'absent' }
  /** The file says nothing of this version. */
  | { readonly kind: 'none' };

export interface CaseHandler {
  readonly pluginId: string;
  readonly behaviour: string;
  /** Options of the registration, as they stand. */
  readonly options: JsonObject;
}

export interface CasePolicy {
  readonly pluginId: string;
  readonly id: string;
  readonly behaviour: string;
}

export interface CaseApproval {
  readonly decision?: string;
  /** Given when the first decision was refused. */
  readonly then?: string;
  readonly abort?: boolean;
}

export type OpenClawCaseFile =
  | { readonly kind: 'cases'; readonly cases: readonly OpenClawCase[] }
  | { readonly kind: 'refused'; readonly reason: string };

/** Whether a file has this format: it has a `meta` that names the levels of its cases. */
export const isOpenClawFile = (text: string): boolean => {
  const file = parsed(text);
  return isObject(file) && isObject(file.meta) && isObject(file.meta.levels);
};

/** Reads a case file; one with a case that cannot be read is refused with the reason. */
export const readOpenClawFile = (text: string): OpenClawCaseFile => {
  const file = parsed(text);
  const list = isObject(file) && Array.isArray(file.cases) ? (file.cases as readonly Json[]) : null;
  if (list === null) return { kind: 'refused', reason: 'it has no list of cases' };
  const fault = list.map(faultOf).find((found) => found !== null);
  if (fault !== undefined) return { kind: 'refused', reason: fault };
  return { kind: 'cases', cases: list.map((one) => caseOf(one as JsonObject)) };
};

const parsed = (text: string): Json | undefined => {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
};

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const faultOf = (one: Json, index: number): string | null => {
  if (!isObject(one) || typeof one.id !== 'string' || typeof one.hook !== 'string') {
    return `case ${String(index)} has no id or no hook`;
  }
  if (!openclawLevels.includes(one.level as OpenClawLevel)) {
    return `${one.id} has the level ${JSON.stringify(one.level)}, which is not one of ${openclawLevels.join(', ')}`;
  }
  return Object.hasOwn(one, 'expected') ? null : `${one.id} expects nothing`;
};

const caseOf = (one: JsonObject): OpenClawCase => ({
  id: one.id as string,
  hook: one.hook as string,
  title: text(one.title) ?? '',
  level: one.level as OpenClawLevel,
  handlers: objects(one.handlers).map(({ pluginId, behaviour, ...options }) => ({
    pluginId: text(pluginId) ?? 'plugin',
    behaviour: text(behaviour) ?? '',
    options,
  })),
  trustedPolicies: objects(one.trustedPolicies).map(({ pluginId, id, behaviour }) => ({
    pluginId: text(pluginId) ?? 'core',
    id: text(id) ?? 'policy',
    behaviour: text(behaviour) ?? '',
  })),
  event: isObject(one.event) ? one.event : {},
  context: isObject(one.context) ? one.context : {},
  approvals: objects(one.approvals),
  approvalMode: text(one.approvalMode),
  repeat: typeof one.repeat === 'number' ? one.repeat : null,
  target: text(one.target),
  plugins: objects(one.plugins).map(({ id, status }) => ({ id: text(id) ?? '', status: text(status) ?? 'loaded' })),
  steps: objects(one.steps),
  setup: isObject(one.setup) ? one.setup : {},
  project: text(one.project),
  compareOnly: texts(one.compareOnly),
  compareAskedOnly: texts(one.compareAskedOnly),
  sharedMutation: one.sharedMutation === true,
  expected: { '2026.7': expectationOf(one, '2026.7'), '2026.9': expectationOf(one, '2026.9') },
});

const fullVersions: { readonly [version in CaseVersion]: string } = { '2026.7': '2026.7.1', '2026.9': '2026.9.6' };

const expectationOf = (one: JsonObject, version: CaseVersion): CaseExpectation => {
  const verified = isObject(one.verified) ? one.verified[fullVersions[version]] : undefined;
  if (verified === 'hook absent') return { kind: 'absent' };
  const isLatest = version === '2026.9' && Object.hasOwn(one, 'expectedLatest');
  const value = (isLatest ? one.expectedLatest : one.expected) ?? null;
  return value === null || verified === 'n/a' ? { kind: 'none' } : { kind: 'expected', value };
};

const text = (value: Json | undefined): string | null => (typeof value === 'string' ? value : null);

const objects = (value: Json | undefined): readonly JsonObject[] =>
  Array.isArray(value) ? (value as readonly Json[]).filter(isObject) : [];

const texts = (value: Json | undefined): readonly string[] | null =>
  Array.isArray(value) ? (value as readonly Json[]).filter((item): item is string => typeof item === 'string') : null;

/** What a driver saw of a case, by the names that expectations use; or, for a case of steps, one value per step. */
export type OpenClawSeen = JsonObject | readonly Json[];

export interface OpenClawMismatch {
  readonly field: string;
  readonly expected: unknown;
  readonly actual: unknown;
}

/** Where what was seen is not what the case expects; empty when it holds. */
export const compareOpenClaw = (one: OpenClawCase, expected: Json, seen: OpenClawSeen): readonly OpenClawMismatch[] => {
  if (Array.isArray(expected)) return compareSteps(expected as readonly Json[], seen);
  if (!isObject(expected) || Array.isArray(seen)) return [{ field: 'expected', expected, actual: seen }];
  return Object.entries(expected).flatMap(([field, wanted]) =>
    compareField(one, field, wanted, (seen as JsonObject)[field]),
  );
};

const compareSteps = (expected: readonly Json[], seen: OpenClawSeen): readonly OpenClawMismatch[] =>
  expected.flatMap((step, index) => {
    const actual = Array.isArray(seen) ? (seen as readonly Json[])[index] : undefined;
    return includes(step, actual) ? [] : [{ field: `step ${String(index)}`, expected: step, actual }];
  });

/** Whether every field that is wanted is there with that value. */
const includes = (wanted: Json, actual: Json | undefined): boolean =>
  isObject(wanted) && isObject(actual)
    ? Object.entries(wanted).every(([field, value]) => sameJson(value, actual[field]))
    : sameJson(wanted, actual);

const compareField = (
  one: OpenClawCase,
  field: string,
  wanted: Json,
  actual: Json | undefined,
): readonly OpenClawMismatch[] => {
  const differs = (same: boolean): readonly OpenClawMismatch[] => (same ? [] : [{ field, expected: wanted, actual }]);
  switch (field) {
    case 'throws':
      return differs(typeof wanted === 'string' && typeof actual === 'string' && actual.includes(wanted));
    case 'elapsedMsBetween':
      return differs(isBetween(wanted, actual));
    case 'outcome':
      return differs(sameJson(wanted, only(actual, one.compareOnly)));
    case 'asked':
      return differs(sameAsked(one, wanted, actual));
    case 'refused':
      return differs(sameJson(sorted(wanted), sorted(actual)));
    case 'notes':
      return differs(includes(wanted, actual));
    default:
      return differs(sameJson(wanted, actual));
  }
};

const isBetween = (bounds: Json, actual: Json | undefined): boolean => {
  const [least, most] = Array.isArray(bounds) ? (bounds as readonly Json[]) : [];
  return (
    typeof least === 'number' &&
    typeof most === 'number' &&
    typeof actual === 'number' &&
    actual >= least &&
    actual <= most
  );
};

const only = (value: Json | undefined, fields: readonly string[] | null): Json | undefined =>
  fields === null || !isObject(value)
    ? value
    : Object.fromEntries(Object.entries(value).filter(([field]) => fields.includes(field)));

const sameAsked = (one: OpenClawCase, wanted: Json, actual: Json | undefined): boolean => {
  if (!Array.isArray(wanted) || !Array.isArray(actual) || wanted.length !== actual.length) return false;
  const seen = actual as readonly Json[];
  return (wanted as readonly Json[]).every((asked, index) =>
    one.compareAskedOnly === null
      ? includes(asked, seen[index])
      : sameJson(only(asked, one.compareAskedOnly), only(seen[index], one.compareAskedOnly)),
  );
};

const sorted = (list: Json | undefined): Json | undefined =>
  Array.isArray(list) ? [...(list as readonly string[])].sort() : list;

/** Runs a case on the real program under one of the exact profiles. What it runs is product code. */
export interface OpenClawDriver {
  run(one: OpenClawCase, version: CaseVersion): Promise<OpenClawSeen>;
  /** Whether the version has the hook. */
  hasHook(hook: string, version: CaseVersion): boolean;
}

export interface OpenClawResult {
  readonly name: string;
  readonly title: string;
  readonly state: 'passed' | 'failed' | 'skipped';
  readonly mismatches: readonly OpenClawMismatch[];
}

const versions: readonly CaseVersion[] = ['2026.7', '2026.9'];

/**
 * Runs every case under both exact profiles, `width` at a time, and those that look at the clock by themselves
 * afterwards; results come in the order of the file.
 */
export const runOpenClawCases = async (
  cases: readonly OpenClawCase[],
  driver: OpenClawDriver,
  width: number,
): Promise<readonly OpenClawResult[]> => {
  const jobs = cases.flatMap((one) => versions.map((version) => ({ one, version })));
  const results: (OpenClawResult | null)[] = [];
  const [timed, untimed] = [true, false].map((wanted) =>
    [...jobs.keys()].filter((index) => isTimed(jobs[index]) === wanted),
  );
  const work = async (places: number[]): Promise<void> => {
    for (let index = places.shift(); index !== undefined; index = places.shift()) {
      const job = jobs[index];
      if (job !== undefined) results[index] = await runOne(job.one, job.version, driver);
    }
  };
  const places = untimed ?? [];
  await Promise.all(Array.from({ length: width }, () => work(places)));
  await work(timed ?? []);
  return results.filter((result) => result !== null);
};

const isTimed = (job: { readonly one: OpenClawCase; readonly version: CaseVersion } | undefined): boolean => {
  const expected = job?.one.expected[job.version];
  return expected?.kind === 'expected' && isObject(expected.value) && Object.hasOwn(expected.value, 'elapsedMsBetween');
};

/** Null: the case says nothing of the version. */
const runOne = async (
  one: OpenClawCase,
  version: CaseVersion,
  driver: OpenClawDriver,
): Promise<OpenClawResult | null> => {
  const result = { name: `${one.id} (${version})`, title: one.title };
  const expectation = one.expected[version];
  if (expectation.kind === 'none') return null;
  if (one.sharedMutation) return { ...result, state: 'skipped', mismatches: [] };
  try {
    const mismatches =
      expectation.kind === 'absent'
        ? absence(driver.hasHook(one.hook, version))
        : compareOpenClaw(one, expectation.value, await driver.run(one, version));
    return { ...result, state: mismatches.length === 0 ? 'passed' : 'failed', mismatches };
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    return { ...result, state: 'failed', mismatches: [{ field: 'run', expected: 'a case that runs', actual: text }] };
  }
};

const absence = (isThere: boolean): readonly OpenClawMismatch[] =>
  isThere ? [{ field: 'hook', expected: 'absent', actual: 'there' }] : [];
