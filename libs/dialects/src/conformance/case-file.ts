import type { Json, JsonObject } from '#record';

/** A conformance case of the middleware dialect (format 1; the file's own `about` says what each field means). */
export interface Case {
  readonly id: string;
  readonly hook: string;
  readonly title: string;
  readonly rules: readonly string[];
  readonly chain: readonly CasePlugin[];
  readonly context: JsonObject;
  readonly given: Given;
  readonly expected: Expected;
  /** What the case gives that this runner cannot make: the case fails rather than pass without it. */
  readonly strange: readonly string[];
}

export interface CasePlugin {
  readonly plugin: string;
  readonly code: string;
  readonly lang: 'javascript' | 'typescript';
}

/** The world outside the handler. */
export interface Given {
  readonly host: ScriptedHost;
  /** Permissions that the owner took away. */
  readonly revoked: readonly string[];
  /** Hop of the first invocation. */
  readonly hop: number;
  /** An operation that is near the hook and does not fire it. */
  readonly gate: string | null;
  /** SSH operations in order, for the hook that fires once per server and turn. */
  readonly operations: readonly { readonly turn: string; readonly host: string }[] | null;
}

/** What the host's members answer. */
export interface ScriptedHost {
  readonly agents: Json;
  readonly transcript: Json;
  readonly fetch: { readonly [url: string]: ScriptedFetch };
  readonly llm: Json;
  readonly decide: Json;
  readonly ssh: readonly ScriptedCommand[];
}

export interface ScriptedFetch {
  readonly status?: number;
  readonly body?: Json;
  readonly takesMs?: number;
  readonly hang?: boolean;
}

export interface ScriptedCommand {
  /** The first one whose `match` is contained in the command answers. */
  readonly match: string;
  readonly exitCode?: number;
  readonly output?: string;
  readonly errorOutput?: string;
  readonly takesMs?: number;
  readonly unreachable?: boolean;
}

export interface Expected {
  readonly outcome: string;
  readonly value: Json;
  readonly cancelReason?: string | null;
  readonly warnings: readonly SeenWarning[];
  readonly events: readonly string[];
  readonly hop?: number;
  readonly meteredHandlers: number;
  readonly totals?: JsonObject;
  readonly compare: Compare;
}

export interface Compare {
  /** False: details are not compared. */
  readonly warningDetail?: boolean;
  /** Codes that are interchangeable. */
  readonly anyOf?: readonly string[];
  /** Regular expression for the value of a hook with one field, in place of `value`. */
  readonly valueMatches?: string;
}

export interface SeenWarning {
  readonly plugin: string;
  readonly code: string;
  readonly detail?: string | null;
}

export type CaseFile =
  { readonly kind: 'cases'; readonly cases: readonly Case[] } | { readonly kind: 'refused'; readonly reason: string };

/** Reads a case file. A file of another format, or a case that lacks what every case has, is refused with the reason. */
export const readCaseFile = (text: string): CaseFile => {
  const file = parsed(text);
  if (!isObject(file)) return refused('it is not a JSON object');
  const version = isObject(file.about) ? file.about.formatVersion : undefined;
  if (version !== 1) return refused(`its about.formatVersion is ${shown(version)}, not 1`);
  const raw = file.cases;
  if (!Array.isArray(raw)) return refused('it has no list of cases');
  const list = raw as readonly Json[];
  const fault = list.map((one, index) => faultOf(one, index)).find((found) => found !== null);
  return fault === undefined ? { kind: 'cases', cases: list.map((one) => caseOf(one as JsonObject)) } : refused(fault);
};

const shown = (value: Json | undefined): string => (value === undefined ? 'missing' : JSON.stringify(value));

const refused = (reason: string): CaseFile => ({ kind: 'refused', reason });

const parsed = (text: string): Json | undefined => {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
};

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const givenFields = ['host', 'revoked', 'hop', 'gate', 'operations'];
const hostFields = ['agents', 'transcript', 'fetch', 'llm', 'decide', 'ssh'];

/** What a case lacks, in words; null when it can be read. */
const faultOf = (one: Json, index: number): string | null => {
  if (!isObject(one)) return `case ${index} is not an object`;
  const name = typeof one.id === 'string' ? one.id : `case ${index}`;
  if (typeof one.id !== 'string' || typeof one.hook !== 'string') return `${name} has no id or no hook`;
  if (!Array.isArray(one.chain) || !(one.chain as readonly Json[]).every(isPlugin)) return `${name} has no chain`;
  if (!isObject(one.context)) return `${name} has no context`;
  const { expected } = one;
  if (!isObject(expected) || typeof expected.outcome !== 'string') return `${name} expects no outcome`;
  if (!Array.isArray(expected.warnings) || !Array.isArray(expected.events)) {
    return `${name} expects no warnings or no events`;
  }
  return isObject(one.given ?? {}) ? null : `${name} has a given that is no object`;
};

const strangersIn = (value: Json, known: readonly string[]): readonly string[] =>
  isObject(value) ? Object.keys(value).filter((key) => !known.includes(key)) : [];

const isPlugin = (value: Json): boolean =>
  isObject(value) && typeof value.plugin === 'string' && typeof value.code === 'string';

const caseOf = (one: JsonObject): Case => {
  const given = (one.given ?? {}) as JsonObject;
  const expected = one.expected as JsonObject & Omit<Expected, 'compare'>;
  return {
    id: one.id as string,
    hook: one.hook as string,
    title: typeof one.title === 'string' ? one.title : '',
    rules: (one.rules ?? []) as readonly string[],
    chain: (one.chain as readonly JsonObject[]).map((plugin) => ({
      plugin: plugin.plugin as string,
      code: plugin.code as string,
      lang: plugin.lang === 'ts' ? 'typescript' : 'javascript',
    })),
    context: one.context as JsonObject,
    given: {
      host: scripted((given.host ?? {}) as JsonObject),
      revoked: (given.revoked ?? []) as readonly string[],
      hop: (given.hop ?? 0) as number,
      gate: (given.gate ?? null) as string | null,
      operations: operationsOf(given.operations),
    },
    strange: [...strangersIn(given, givenFields), ...strangersIn(given.host ?? {}, hostFields)],
    expected: { ...expected, compare: (expected.compare ?? {}) as Compare },
  };
};

const scripted = (host: JsonObject): ScriptedHost => ({
  agents: host.agents ?? [],
  transcript: host.transcript ?? [],
  fetch: (host.fetch ?? {}) as unknown as ScriptedHost['fetch'],
  llm: host.llm ?? null,
  decide: host.decide ?? null,
  ssh: (host.ssh ?? []) as unknown as ScriptedHost['ssh'],
});

const operationsOf = (value: Json | undefined): Given['operations'] =>
  Array.isArray(value)
    ? (value as readonly JsonObject[]).map(({ turn, host }) => ({ turn: word(turn), host: word(host) }))
    : null;

const word = (value: Json | undefined): string => (typeof value === 'string' ? value : shown(value));
