import { resolve } from 'node:path';
import type { EventType } from '#record';
import { eventTypes } from '#record';
import { readOptions, wholeNumber } from '../options.js';
import { Misuse } from '../words.js';

/** Where the events of a replay go. */
export type ReplayTarget =
  | { readonly kind: 'projection'; readonly name: string }
  | { readonly kind: 'topic'; readonly name: string }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'stdout' };

/** Which events. Positions are those of the account where one is named, else those of the whole log. */
export interface ReplayFilter {
  readonly account: string | null;
  readonly from: bigint | null;
  /** Inclusive. */
  readonly to: bigint | null;
  /** Null = every type. */
  readonly types: readonly EventType[] | null;
  readonly session: string | null;
  readonly stream: string | null;
}

/** What `hookledger replay` was asked for. */
export interface ReplayOrder {
  readonly target: ReplayTarget;
  /** The target as it was said. */
  readonly to: string;
  readonly filter: ReplayFilter;
  readonly source: 'postgres' | 'kafka';
  /** Most events per second; null = as fast as it goes. */
  readonly rate: number | null;
  /** Compares the rebuilt tables with the live ones. */
  readonly check: boolean;
  /** Puts the rebuilt tables in the place of the live ones. */
  readonly swap: boolean;
  readonly json: boolean;
  readonly data: string | undefined;
}

const replayOptions = {
  to: { type: 'string' },
  account: { type: 'string' },
  from: { type: 'string' },
  'to-position': { type: 'string' },
  type: { type: 'string', multiple: true },
  session: { type: 'string' },
  stream: { type: 'string' },
  rate: { type: 'string' },
  source: { type: 'string' },
  check: { type: 'boolean' },
  'no-swap': { type: 'boolean' },
  json: { type: 'boolean' },
  data: { type: 'string' },
} as const;

/** Reads the words of `hookledger replay`. Throws `Misuse`. */
export const readReplay = (args: readonly string[], cwd: string): ReplayOrder => {
  const { values } = readOptions(args, replayOptions);
  const { to = '', source = 'postgres', check = false, json = false } = values;
  const target = targetOf(to, cwd);
  if (source !== 'postgres' && source !== 'kafka') throw new Misuse('--source must be postgres or kafka');
  const filter = filterOf(values);
  const isWhole = Object.values(filter).every((value) => value === null);
  if (target.kind === 'projection' && !isWhole) {
    throw new Misuse('a read model is rebuilt from the whole log: filters go with topic, file and stdout');
  }
  if (target.kind !== 'projection' && check) throw new Misuse('--check goes with --to projection:NAME');
  if (values['no-swap'] === true && !check) throw new Misuse('--no-swap goes with --check');
  const rate = values.rate === undefined ? null : wholeNumber('rate', values.rate, 1, 1_000_000_000);
  return { target, to, filter, source, rate, check, swap: values['no-swap'] !== true, json, data: values.data };
};

const targetOf = (to: string, cwd: string): ReplayTarget => {
  if (to === '') throw new Misuse('--to is missing: projection:NAME, topic:NAME, file:PATH or stdout');
  if (to === 'stdout') return { kind: 'stdout' };
  const [, kind, name = ''] = /^(projection|topic|file):(.+)$/u.exec(to) ?? [];
  if (kind === 'file') return { kind, path: resolve(cwd, name) };
  if (kind === 'projection') return { kind, name };
  if (kind === 'topic' && /^[A-Za-z0-9._-]{1,249}$/u.test(name)) return { kind, name };
  if (kind === 'topic') throw new Misuse('a topic has a name of letters, digits, ".", "_" and "-"');
  throw new Misuse(`--to "${to}" is none of projection:NAME, topic:NAME, file:PATH and stdout`);
};

const filterOf = (
  values: Partial<Record<'account' | 'from' | 'to-position' | 'session' | 'stream', string>> & {
    readonly type?: readonly string[];
  },
): ReplayFilter => {
  const { account, session, stream } = values;
  if (account === '' || session === '' || stream === '')
    throw new Misuse('--account, --session and --stream need a name');
  if (account === undefined && (session !== undefined || stream !== undefined)) {
    throw new Misuse('--session and --stream belong to an account: name it with --account');
  }
  const position = (name: 'from' | 'to-position'): bigint | null => {
    const text = values[name];
    return text === undefined ? null : BigInt(wholeNumber(name, text, 0, Number.MAX_SAFE_INTEGER));
  };
  const [from, to] = [position('from'), position('to-position')];
  if (from !== null && to !== null && from > to) throw new Misuse('--from is above --to-position');
  return {
    account: account ?? null,
    from,
    to,
    types: values.type === undefined ? null : typesOf(values.type),
    session: session ?? null,
    stream: stream ?? null,
  };
};

const typesOf = (wanted: readonly string[]): readonly EventType[] => {
  const found = wanted.flatMap((word) => {
    const types = eventTypes.filter(
      (type) => type === word || (word.endsWith('.*') && type.startsWith(word.slice(0, -1))),
    );
    if (types.length === 0) throw new Misuse(`there is no event type "${word}"`);
    return types;
  });
  return [...new Set(found)];
};
