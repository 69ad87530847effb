import { setTimeout as delay } from 'node:timers/promises';
import { eventSource, KafkaFailure, type TopicSpec, type TopicState } from '#kafka';
import { Fenced, takeOwnership, type Ownership } from './kafka-relay-lease.js';
import { noteStale, readLogId, readProgress, readSent, startOver } from './kafka-relay-tables.js';
import { RelayMemory, RelayTurn, type RelayOptions } from './kafka-relay-turn.js';

/** How a relay is, in this process. */
export interface RelayState {
  readonly role: 'owner' | 'standby';
  /** Why nothing goes through; null while it does. */
  readonly trouble: string | null;
  /** For how long the broker has owed an answer, ms. */
  readonly unansweredMs: number;
  /** What is not as it must be with the topics. */
  readonly findings: readonly string[];
}

/** A relay at work. */
export interface Relay {
  state(): RelayState;
  /** Finishes what it is at, and lets another replica have the lease. */
  stop(): Promise<void>;
}

/** A failing owner gives up its lease this often, in failures: another replica may reach Kafka. */
const failuresPerTurn = 4;
/** Before the log has an id, ms. */
const firstStartMs = 200;

/**
 * Relays the log to Kafka, in turn with the other replicas. At least once, in order per key: every owner begins behind
 * what is noted as sent, sends without a gap, and notes it after all replicas of the topic have it. So whatever is
 * repeated, by a retry or by an owner that was replaced while it stood still, the first time that each event of a key
 * is in the topic comes in order.
 */
export const startRelay = (options: RelayOptions): Relay => {
  const relay = new RelayWork(options);
  const ended = relay.run();
  return {
    state: () => relay.state(),
    stop: async () => {
      relay.stop();
      await ended;
    },
  };
};

class RelayWork {
  private readonly stopping = new AbortController();
  private readonly memory: RelayMemory;
  private ownership: Ownership | null = null;
  private trouble: string | null = null;
  private failures = 0;
  private findings: readonly string[] = [];

  constructor(private readonly options: RelayOptions) {
    this.memory = new RelayMemory(options.ownTopics);
  }

  state(): RelayState {
    const { sendingSince, purgeTrouble } = this.memory;
    return {
      role: this.ownership?.isHeld() === true ? 'owner' : 'standby',
      trouble: this.trouble,
      unansweredMs: sendingSince === null ? 0 : performance.now() - sendingSince,
      findings: purgeTrouble === null ? this.findings : [...this.findings, purgeTrouble],
    };
  }

  stop(): void {
    this.stopping.abort();
  }

  async run(): Promise<void> {
    const stopListening = this.options.store.onAppended(() => this.memory.wake());
    while (!this.stopping.signal.aborted) {
      const ownership = await takeOwnership(this.options.sql, this.options.leaseMs).catch(() => null);
      if (ownership === null) {
        this.trouble = null;
        await this.pause(this.options.leaseMs / 4);
      } else {
        this.ownership = ownership;
        await this.own(ownership);
        this.ownership = null;
      }
    }
    stopListening();
    await this.memory.purging;
  }

  /** Until the lease is over: with a new producer after every failure. */
  private async own(ownership: Ownership): Promise<void> {
    let tries = 0;
    while (!this.stopping.signal.aborted && ownership.isHeld()) {
      try {
        await this.serve(ownership);
      } catch (error) {
        if (error instanceof Fenced) {
          await this.giveWay(ownership);
          return;
        }
        this.note(error);
        tries += 1;
        if (tries === failuresPerTurn) break;
        await this.pause(Math.min(100 * 2 ** this.failures, 5_000));
      }
    }
    await ownership.release().catch(() => undefined);
    // Longer than the others take to notice that the lease is free.
    if (tries === failuresPerTurn) await this.pause(this.options.leaseMs / 3);
  }

  private note(error: unknown): void {
    this.failures += 1;
    const isKafka = error instanceof KafkaFailure;
    const why = isKafka ? error.message : `the log cannot be read, or noted in (${nameOf(error)})`;
    if (this.trouble === null) this.options.log?.('warn', 'events wait for Kafka', { why });
    this.trouble = why;
    this.options.watch?.failed(isKafka ? error.kind : 'database');
  }

  private worked(): void {
    if (this.trouble !== null) this.options.log?.('info', 'events go to Kafka again');
    this.trouble = null;
    this.failures = 0;
  }

  /** Its successor sees to what this one may have sent behind it. */
  private async giveWay(ownership: Ownership): Promise<void> {
    ownership.abandon();
    this.options.watch?.fenced();
    this.options.log?.('warn', 'another replica relays to Kafka by now; what this one sent late is there twice');
    const { keys, blobs } = this.memory.unnoted;
    this.memory.unnoted = { keys: [], blobs: [] };
    await noteStale(this.options.sql, keys, blobs).catch(() => undefined);
  }

  /** Works until it is stopped or loses the lease; rejects when something fails. */
  private async serve(ownership: Ownership): Promise<void> {
    const { sql, kafka } = this.options;
    const logId = await readLogId(sql);
    if (logId === null) {
      await this.pause(firstStartMs);
      return;
    }
    const topics = await this.ensureTopics();
    const position = await this.beginning(ownership);
    const producer = await kafka.producer(topics);
    try {
      const turn = new RelayTurn(
        this.options,
        this.memory,
        ownership,
        producer,
        topics,
        eventSource(logId),
        this.stopping.signal,
        () => this.worked(),
        () => this.ensureTopics(),
      );
      await turn.run(position);
    } finally {
      await producer.close();
    }
  }

  private async ensureTopics(): Promise<readonly TopicState[]> {
    const { kafka, names, partitions, replicas } = this.options;
    const spec = (name: string, policy: TopicSpec['policy'], parts = partitions): TopicSpec => ({
      name,
      policy,
      partitions: parts,
      replicas,
    });
    const topics = await kafka.topics();
    try {
      const states = await topics.ensure([
        ...names.allEvents.map((name) => spec(name, 'keep')),
        spec(names.blobs, 'compact'),
        spec(names.keys, 'compact', 1),
        spec(names.checkpoints, 'keep', 1),
      ]);
      const findings = states.flatMap((state) => state.findings);
      const news = findings.filter((finding) => !this.findings.includes(finding));
      for (const finding of news) this.options.log?.('warn', 'a topic is not as it must be', { finding });
      this.findings = findings;
      return states;
    } finally {
      await topics.close();
    }
  }

  /** Where to begin: at the log's beginning again where a topic has nothing of what was sent to it. */
  private async beginning(ownership: Ownership): Promise<bigint> {
    const { sql, kafka, names } = this.options;
    const { position } = await readProgress(sql);
    const sent = await readSent(sql);
    const topics = await kafka.topics();
    const isEmpty = async (of: readonly string[]): Promise<boolean> => {
      for (const topic of of) {
        if (((await topics.offsets(topic)) ?? []).some(({ high }) => high > 0n)) return false;
      }
      return true;
    };
    try {
      const isLost =
        (position >= 0n && (await isEmpty(names.allEvents))) ||
        (sent.blobs && (await isEmpty([names.blobs]))) ||
        (sent.keys && (await isEmpty([names.keys])));
      if (!isLost) return position;
    } finally {
      await topics.close();
    }
    await startOver(ownership);
    this.memory.sentBlobs.clear();
    // What was sent and not noted went to the topics that are gone, too: noted now, it would never be in the new ones.
    this.memory.unnoted = { keys: [], blobs: [] };
    this.options.log?.('warn', 'a topic has nothing of what was sent to it: the whole log is sent again', {
      sentBefore: String(position + 1n),
    });
    return -1n;
  }

  /** Waits; ends early at a stop. */
  private async pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.stopping.signal, ref: false }).catch(() => undefined);
  }
}

// An error's message may quote what a statement was given.
const nameOf = (error: unknown): string => {
  if (!(error instanceof Error)) return 'unknown';
  return 'code' in error && typeof error.code === 'string' ? `${error.name} ${error.code}` : error.name;
};
