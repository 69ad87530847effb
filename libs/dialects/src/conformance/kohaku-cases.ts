import { sameJson } from '#hooks';
import type { Json, JsonObject } from '#record';

/** A conformance case of the Kohaku dialect; the file's own `drivers` says what each one does. */
export interface KohakuCase {
  readonly id: string;
  readonly hook: string;
  readonly title: string;
  readonly plugins: readonly KohakuCasePlugin[];
  readonly driver: string;
  readonly input: JsonObject;
  /** Only these keys are compared. */
  readonly expected: JsonObject;
}

export interface KohakuCasePlugin {
  readonly name: string;
  /** Null: the class's own. */
  readonly priority: number | null;
  readonly disabled: boolean;
  readonly language: 'python' | 'javascript';
  readonly source: string;
}

export type KohakuCaseFile =
  | { readonly kind: 'cases'; readonly cases: readonly KohakuCase[] }
  | { readonly kind: 'refused'; readonly reason: string };

/** Whether a file has this format: it says what its drivers are. */
export const isKohakuFile = (text: string): boolean => {
  const file = parsed(text);
  return isObject(file) && isObject(file.drivers) && Array.isArray(file.cases);
};

/** Reads a case file; one with a case that cannot be read is refused with the reason. */
export const readKohakuFile = (text: string): KohakuCaseFile => {
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
  if (!isObject(one) || typeof one.id !== 'string') return `case ${String(index)} has no id`;
  if (!isObject(one.input) || typeof one.input.driver !== 'string') return `${one.id} names no driver`;
  if (!isObject(one.expected)) return `${one.id} expects nothing`;
  const plugins = Array.isArray(one.plugins) ? (one.plugins as readonly Json[]) : [];
  const isPlugin = (plugin: Json): boolean =>
    isObject(plugin) &&
    typeof plugin.name === 'string' &&
    (typeof plugin.python === 'string' || typeof plugin.javascript === 'string');
  return plugins.every(isPlugin) ? null : `${one.id} has a plugin without a name or a source`;
};

const caseOf = (one: JsonObject): KohakuCase => ({
  id: one.id as string,
  hook: typeof one.hook === 'string' ? one.hook : '',
  title: typeof one.title === 'string' ? one.title : '',
  plugins: (Array.isArray(one.plugins) ? (one.plugins as readonly JsonObject[]) : []).map(pluginOf),
  driver: (one.input as JsonObject).driver as string,
  input: one.input as JsonObject,
  expected: one.expected as JsonObject,
});

const pluginOf = ({ name, priority, disabled, python, javascript }: JsonObject): KohakuCasePlugin => ({
  name: name as string,
  priority: typeof priority === 'number' ? priority : null,
  disabled: disabled === true,
  language: typeof python === 'string' ? 'python' : 'javascript',
  source: (python ?? javascript) as string,
});

/** Runs a case on the real program under one profile. What it runs is product code. */
export interface KohakuDriver {
  run(one: KohakuCase, profile: KohakuProfile): Promise<JsonObject>;
}

export type KohakuProfile = 'documented' | '2.1';

export interface KohakuResult {
  readonly name: string;
  readonly title: string;
  readonly mismatches: readonly { readonly field: string; readonly expected: unknown; readonly actual: unknown }[];
}

/** Where the source page, which `documented` follows, says something else than the code that cases were taken from. */
const differs: ReadonlySet<string> = new Set([
  'on_load',
  'pre_subagent_run',
  'post_subagent_run',
  'contribute_termination_check',
  'get_content',
  'prompt plugins',
]);

/** Drivers of those hooks, whatever a case calls its hook. */
const differingDrivers: ReadonlySet<string> = new Set([
  'lifecycle',
  'subagent_dispatch',
  'post_subagent',
  'termination',
  'prompt_plugins',
]);

/**
 * Runs every case under the exact profile, and those whose rules the page shares under `documented` too, `width` at a
 * time; results come in the order of the file.
 */
export const runKohakuCases = async (
  cases: readonly KohakuCase[],
  driver: KohakuDriver,
  width: number,
): Promise<readonly KohakuResult[]> => {
  const jobs = cases.flatMap((one) => profilesOf(one).map((profile) => ({ one, profile })));
  const results: KohakuResult[] = [];
  const places = [...jobs.keys()];
  const work = async (): Promise<void> => {
    for (let place = places.shift(); place !== undefined; place = places.shift()) {
      const job = jobs[place];
      if (job !== undefined) results[place] = await runOne(job.one, job.profile, driver);
    }
  };
  await Promise.all(Array.from({ length: width }, work));
  return results;
};

const profilesOf = ({ hook, driver }: KohakuCase): readonly KohakuProfile[] =>
  differs.has(hook) || differingDrivers.has(driver) ? ['2.1'] : ['2.1', 'documented'];

const runOne = async (one: KohakuCase, profile: KohakuProfile, driver: KohakuDriver): Promise<KohakuResult> => {
  const result = { name: `${one.id} (${profile})`, title: one.title };
  try {
    const seen = await driver.run(one, profile);
    const mismatches = Object.entries(one.expected).flatMap(([field, expected]) =>
      sameJson(expected, seen[field] ?? null) ? [] : [{ field, expected, actual: seen[field] }],
    );
    return { ...result, mismatches };
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    return { ...result, mismatches: [{ field: 'run', expected: 'a case that runs', actual: text }] };
  }
};
