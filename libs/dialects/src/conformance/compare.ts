import type { Json, JsonObject } from '#record';
import { sameJson } from '#hooks';
import type { Case, SeenWarning } from './case-file.js';

/** What a driver saw when it ran a case on the real program. */
export interface Observed {
  /** Of the first invocation; `passed` where nothing fired. */
  readonly outcome: string;
  readonly value: Json;
  readonly cancelReason: string | null;
  /** Load warnings in chain order, then those of the handlers, of all invocations in order. */
  readonly warnings: readonly SeenWarning[];
  /** Every event of the account, in the order of the log. */
  readonly events: readonly string[];
  readonly hop: number;
  readonly meteredHandlers: number;
  readonly totals: JsonObject;
}

export interface Mismatch {
  readonly field: string;
  readonly expected: unknown;
  readonly actual: unknown;
}

/** Where what was seen is not what the case expects; empty when it holds. */
export const compareCase = (one: Case, seen: Observed): readonly Mismatch[] => {
  const { expected } = one;
  const differs = (field: string, wanted: unknown, actual: unknown): readonly Mismatch[] =>
    sameJson(wanted, actual) ? [] : [{ field, expected: wanted, actual }];
  return [
    ...differs('outcome', outcomeWord(expected.outcome, expected.value), outcomeWord(seen.outcome, expected.value)),
    ...valueMismatch(one, seen.value),
    ...(expected.cancelReason === undefined ? [] : differs('cancelReason', expected.cancelReason, seen.cancelReason)),
    ...(expected.outcome === 'cancelled' ? [] : differs('cancelReason', null, seen.cancelReason)),
    ...warningMismatch(one, seen.warnings),
    ...differs('events', expected.events, seen.events.filter(isCompared)),
    ...(expected.hop === undefined ? [] : differs('hop', expected.hop, seen.hop)),
    ...differs('meteredHandlers', expected.meteredHandlers, seen.meteredHandlers),
    ...Object.entries(expected.totals ?? {}).flatMap(([name, total]) =>
      differs(`totals.${name}`, total, seen.totals[name]),
    ),
  ];
};

/** The file says `passed` with value null where HTTP says `observed`. */
const outcomeWord = (outcome: string, value: Json): string =>
  value === null && outcome === 'observed' ? 'passed' : outcome;

const notCompared = ['handler.started', 'handler.not_run', 'host.answered'];
const notComparedGroups = ['plugin.', 'approval.', 'account.'];

const isCompared = (type: string): boolean =>
  !notCompared.includes(type) && !notComparedGroups.some((group) => type.startsWith(group));

const valueMismatch = ({ expected }: Case, value: Json): readonly Mismatch[] => {
  const pattern = expected.compare.valueMatches;
  if (pattern === undefined) {
    return sameJson(expected.value, value) ? [] : [{ field: 'value', expected: expected.value, actual: value }];
  }
  const matches = typeof value === 'string' && new RegExp(pattern, 'u').test(value);
  return matches ? [] : [{ field: 'value', expected: `text that matches ${pattern}`, actual: value }];
};

const warningMismatch = ({ expected }: Case, seen: readonly SeenWarning[]): readonly Mismatch[] => {
  const { anyOf = [], warningDetail = true } = expected.compare;
  const same =
    expected.warnings.length === seen.length &&
    expected.warnings.every((wanted, index) => {
      const actual = seen[index];
      if (actual?.plugin !== wanted.plugin) return false;
      if (wanted.code !== actual.code && !(anyOf.includes(wanted.code) && anyOf.includes(actual.code))) return false;
      // A case that names no detail says nothing about it.
      return !warningDetail || wanted.detail === undefined || wanted.detail === (actual.detail ?? null);
    });
  return same ? [] : [{ field: 'warnings', expected: expected.warnings, actual: seen }];
};
