import { userInfo } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { v7 as uuidv7 } from 'uuid';
import type { Projection } from '#audit';
import { allReadModels } from '#audit';
import { LogUnavailable } from '#event-store';
import { KafkaFailure, openKafka, topicNames } from '#kafka';
import type { KafkaConfig } from '#platform';
import type { Json, NewEvent } from '#record';
import { asData } from '#record';
import { postgresSealing } from '#sealing';
import type { Ledger } from '../ledger/ledger.js';
import { givenMasterKeys, openLedger } from '../ledger/ledger.js';
import type { Progress } from '../progress.js';
import { showProgress } from '../progress.js';
import { Failure, Misuse, plain } from '../words.js';
import type { ReplayFilter, ReplayOrder, ReplayTarget } from './order.js';
import { readReplay } from './order.js';
import type { ReplayOutput } from './outputs.js';
import { fileOutput, stdoutOutput, topicOutput } from './outputs.js';
import type { Rebuilt } from './rebuild.js';
import { rebuildModels } from './rebuild.js';
import type { ReplaySource } from './source.js';
import { kafkaSource, postgresSource } from './source.js';

/** How a replay ended, as it is printed with `--json`. */
interface ReplaySummary {
  readonly replayId: string;
  readonly to: string;
  readonly outcome: 'finished' | 'differences' | 'interrupted';
  readonly events: number;
  readonly seconds: number;
  readonly [fact: string]: Json;
}

/**
 * `hookledger replay`: takes the log again, into a read model that is rebuilt beside the live one, a topic, a file or
 * standard output (events.md §7). Recorded as `replay.started` and `replay.finished`; it has no other effect.
 */
export const replay = async (args: readonly string[]): Promise<number> => {
  const order = readReplay(args, process.cwd());
  const ledger = await openLedger(order.data, process.env, 'replay', 'append');
  const stop = new AbortController();
  const interrupt = (): void => stop.abort(new Interrupted());
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  try {
    const summary = await recorded(order, ledger, stop.signal);
    print(order, summary);
    return exitCodes[summary.outcome];
  } catch (error) {
    if (error instanceof LogUnavailable) throw new Failure(`The database cannot be used: ${error.message}.`);
    throw error instanceof KafkaFailure ? new Failure(`Kafka: ${error.message}.`) : error;
  } finally {
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
    await ledger.close();
  }
};

/** 130: what a shell gives to a program that Ctrl-C ended. */
const exitCodes = { finished: 0, differences: 1, interrupted: 130 } as const;

class Interrupted extends Error {
  override readonly name = 'Interrupted';
}

/** Runs it between its two events. What fails is recorded as failed, and is a failure still. */
const recorded = async (order: ReplayOrder, ledger: Ledger, signal: AbortSignal): Promise<ReplaySummary> => {
  const replayId = uuidv7();
  const account = order.filter.account ?? 'system';
  const note = async (event: NewEvent): Promise<void> => {
    const actor = { kind: 'operator', id: userInfo().username } as const;
    const write = { stream: `replay/${replayId}`, expectedVersion: 'any' as const, events: [{ ...event, actor }] };
    await ledger.store.append({ account, writes: [write] });
  };
  const prepared = await prepare(order, ledger, replayId);
  const filter = shownFilter(order.filter);
  await note({ type: 'replay.started', data: asData({ replayId, to: order.to, source: order.source, ...filter }) });
  const count = { events: 0 };
  const finish = (outcome: string, differences?: number): Promise<void> =>
    note({
      type: 'replay.finished',
      data: asData({ replayId, events: count.events, outcome, ...(differences === undefined ? {} : { differences }) }),
    });
  const began = performance.now();
  try {
    const facts = await prepared.run(count, signal);
    const { differences } = facts;
    const outcome = typeof differences === 'number' && differences > 0 ? 'differences' : 'finished';
    await finish(outcome, typeof differences === 'number' ? differences : undefined);
    return { replayId, to: order.to, outcome, events: count.events, seconds: secondsSince(began), ...facts };
  } catch (error) {
    const isInterrupted = signal.aborted && (error instanceof Interrupted || (error as Error).name === 'AbortError');
    await finish(isInterrupted ? 'interrupted' : 'failed').catch(() => undefined);
    if (!isInterrupted) throw error;
    return { replayId, to: order.to, outcome: 'interrupted', events: count.events, seconds: secondsSince(began) };
  }
};

const secondsSince = (began: number): number => Math.round(performance.now() - began) / 1_000;

const shownFilter = ({ account, from, to, types, session, stream }: ReplayFilter): { readonly filter?: object } => {
  const said = {
    ...(account === null ? {} : { account }),
    ...(from === null ? {} : { from: String(from) }),
    ...(to === null ? {} : { to: String(to) }),
    ...(types === null ? {} : { types }),
    ...(session === null ? {} : { session }),
    ...(stream === null ? {} : { stream }),
  };
  return Object.keys(said).length === 0 ? {} : { filter: said };
};

/** A replay that can begin: what it needs was found and opened, and its end is fixed. */
interface PreparedReplay {
  /** Answers with facts for the summary. */
  run(count: { events: number }, signal: AbortSignal): Promise<Readonly<Record<string, Json>>>;
}

const prepare = async (order: ReplayOrder, ledger: Ledger, replayId: string): Promise<PreparedReplay> => {
  const { target } = order;
  const projections = target.kind === 'projection' ? projectionsOf(target.name, ledger) : [];
  let lacking = 0;
  const source = await sourceOf(order, ledger, (events) => (lacking += events));
  const isFiltered = order.filter.types !== null || order.filter.session !== null || order.filter.stream !== null;
  const run = async (count: { events: number }, signal: AbortSignal) => {
    const progress = showProgress({ unit: isFiltered ? 'positions' : 'events', show: order.json ? 'none' : 'auto' });
    const pace = pacer(order.rate, signal);
    const covered = async (positions: number, events: number): Promise<void> => {
      count.events += events;
      progress.update(Math.min(positions, source.positions), source.positions);
      await pace(events);
    };
    try {
      const facts =
        target.kind === 'projection'
          ? await rebuilt(order, ledger, projections, source, covered, progress, signal)
          : await written(await outputOf(target, ledger, replayId), source, covered, order.rate, signal);
      return { ...facts, ...(order.source === 'kafka' ? { missingOnKafka: lacking } : {}) };
    } finally {
      progress.stop();
    }
  };
  return { run };
};

/** Waits so that no more than `rate` events a second go through. */
const pacer = (rate: number | null, signal: AbortSignal): ((events: number) => Promise<void>) => {
  if (rate === null) return () => Promise.resolve();
  const began = performance.now();
  let total = 0;
  return async (events) => {
    total += events;
    const early = (total / rate) * 1_000 - (performance.now() - began);
    if (early > 0) await delay(early, undefined, { signal }).catch(() => undefined);
  };
};

const projectionsOf = (name: string, { config, sql, store }: Ledger): readonly Projection[] => {
  const sealing = postgresSealing({ sql, store, masterKeys: givenMasterKeys(config) });
  const all = allReadModels(sealing, config);
  const found = name === 'all' ? all : all.filter((projection) => projection.name === name);
  if (found.length > 0) return found;
  throw new Misuse(`there is no read model "${plain(name)}": ${all.map((known) => known.name).join(', ')}, or all`);
};

const kafkaOf = ({ config }: Ledger): KafkaConfig => {
  if (config.kafka !== null) return config.kafka;
  throw new Failure('Kafka is not configured: set HOOKLEDGER_KAFKA_BROKERS, as for the server.');
};

const sourceOf = (order: ReplayOrder, ledger: Ledger, lacking: (events: number) => void): Promise<ReplaySource> => {
  if (order.source === 'postgres') return postgresSource(ledger.store, order.filter);
  const config = kafkaOf(ledger);
  const names = topicNames(config.topicPrefix, config.accountTopics);
  const extent = order.target.kind === 'projection' ? 'whole' : 'topics';
  return kafkaSource({ kafka: openKafka(config), names }, ledger.store, order.filter, lacking, extent);
};

const outputOf = async (
  target: Exclude<ReplayTarget, { readonly kind: 'projection' }>,
  ledger: Ledger,
  replayId: string,
): Promise<ReplayOutput> => {
  if (target.kind === 'stdout') return stdoutOutput();
  if (target.kind === 'file') return fileOutput(target.path);
  const config = kafkaOf(ledger);
  const [row] = await ledger.sql.query<{ log_id: string | null }>('select log_id from log_format');
  if ((row?.log_id ?? null) === null) throw new Failure('The log has no id yet: start the server once.');
  const logId = row?.log_id ?? '';
  return topicOutput({ kafka: openKafka(config), config, topic: target.name, logId, replayId });
};

type Covered = (positions: number, events: number) => Promise<void>;

const written = async (
  output: ReplayOutput,
  source: ReplaySource,
  covered: Covered,
  rate: number | null,
  signal: AbortSignal,
): Promise<Readonly<Record<string, Json>>> => {
  // In small steps where the pace is limited, so that they come evenly.
  const step = rate === null ? Infinity : Math.max(1, Math.floor(rate / 10));
  try {
    await source.read(async (events, positions) => {
      for (let at = 0; at < events.length && !signal.aborted; at += step) {
        const some = events.slice(at, at + step);
        await output.write(some);
        await covered(positions - Math.max(0, events.length - at - step), some.length);
      }
    }, signal);
    signal.throwIfAborted();
    return await output.finish();
  } catch (error) {
    await output.abandon().catch(() => undefined);
    throw error;
  }
};

const rebuilt = async (
  order: ReplayOrder,
  { sql, store }: Ledger,
  projections: readonly Projection[],
  source: ReplaySource,
  covered: Covered,
  progress: Progress,
  signal: AbortSignal,
): Promise<Readonly<Record<string, Json>>> => {
  const { check, swap } = order;
  const phase = (words: string): void => progress.say(words);
  const done = await rebuildModels({ sql, store, projections, source, check, swap, covered, phase, signal });
  const [row] = await sql.query<{ purged: string }>(
    'select coalesce(sum(last - first + 1), 0) as purged from purged_range',
  );
  return { ...factsOf(done), purged: Number(row?.purged ?? 0) };
};

const factsOf = ({ differences, setAside, swapped }: Rebuilt): Readonly<Record<string, Json>> => ({
  swapped,
  setAside,
  ...(differences === null
    ? {}
    : { differences: differences.count, rows: differences.shown.map((row) => ({ ...row, key: { ...row.key } })) }),
});

/** With `stdout` as the target, what is told goes to standard error. */
const print = (order: ReplayOrder, summary: ReplaySummary): void => {
  const say = order.target.kind === 'stdout' ? console.error : console.log;
  if (order.json) say(JSON.stringify(summary));
  else for (const line of linesOf(summary)) say(plain(line));
};

interface ShownRow {
  readonly table: string;
  readonly kind: string;
  readonly key: Readonly<Record<string, string>>;
  readonly columns: readonly string[];
}

const linesOf = (summary: ReplaySummary): readonly string[] => {
  const { outcome, events, seconds, swapped, setAside, differences, file, sha256, topic, missingOnKafka, purged } =
    summary;
  const count = events.toLocaleString('en-US');
  const head = `${count} events in ${seconds.toFixed(1)} s (${rateOf(events, seconds)} events/s)`;
  if (outcome === 'interrupted') return [`Interrupted after ${head}; nothing was changed.`];
  return [
    `${head}${Array.isArray(swapped) && swapped.length > 0 ? `; now in place: ${swapped.join(', ')}` : ''}`,
    ...(typeof file === 'string' && typeof sha256 === 'string' ? [`${file}, SHA-256 ${sha256}`] : []),
    ...(typeof topic === 'string' ? [`sent to topic ${topic}, each with ce_replay ${summary.replayId}`] : []),
    ...(typeof setAside === 'number' && setAside > 0
      ? [`${String(setAside)} events could not be taken; see read_model_set_aside`]
      : []),
    ...(typeof purged === 'number' && purged > 0
      ? [
          `${purged.toLocaleString('en-US')} events were purged from the log: sums of usage and turns count them no more`,
        ]
      : []),
    ...(typeof missingOnKafka === 'number' && missingOnKafka > 0
      ? [`${String(missingOnKafka)} events are in Postgres and not in the topics`]
      : []),
    ...(typeof differences === 'number'
      ? differenceLines(differences, summary.rows as unknown as readonly ShownRow[])
      : []),
  ];
};

const rateOf = (events: number, seconds: number): string =>
  Math.round(seconds > 0 ? events / seconds : events).toLocaleString('en-US');

const differenceLines = (count: number, rows: readonly ShownRow[]): readonly string[] => {
  if (count === 0) return ['The live tables hold the same rows.'];
  return [
    `${count.toLocaleString('en-US')} rows of the live tables differ from the log:`,
    ...rows.map(({ table, kind, key, columns }) => {
      const name = Object.entries(key)
        .map(([column, value]) => `${column} ${value}`)
        .join(', ');
      return `  ${kind.padEnd(9)}  ${table}  ${name}${columns.length === 0 ? '' : `  (${columns.join(', ')})`}`;
    }),
    ...(count > rows.length ? [`  and ${(count - rows.length).toLocaleString('en-US')} more`] : []),
  ];
};
