import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { EventStore, Log, Sql } from '#event-store';
import {
  blobTombstones,
  dataKeyTombstone,
  encodeBlob,
  encodeCheckpoint,
  encodeDataKey,
  encodeEvent,
  encodeLeaves,
  encodeLogKey,
  KafkaFailure,
  type EventRecord,
  type Kafka,
  type OutgoingMessage,
  type Producer,
  type TopicNames,
  type TopicState,
} from '#kafka';
import type { Ownership } from './kafka-relay-lease.js';
import { purgedLeaves } from './kafka-relay-leaves.js';
import { purgeTopic } from './kafka-relay-purge.js';
import {
  commitProgress,
  goneBlobs,
  isPurging,
  lookUpBlobs,
  noteGoneBodies,
  noteSentKeys,
  readBatch,
  readBlobs,
  readCheckpoints,
  readLogKeys,
  readNotes,
  settleGoneBlobs,
  unsentKeys,
  writeNote,
  type RelayBatch,
  type RelayedBlob,
} from './kafka-relay-tables.js';
import type { Pace } from './resting.js';

/** What a relay works with. */
export interface RelayOptions {
  readonly sql: Sql;
  readonly store: Pick<EventStore, 'onAppended'>;
  readonly kafka: Kafka;
  readonly names: TopicNames;
  /** Of topics that are made. */
  readonly partitions: number;
  readonly replicas: number | null;
  /** Accounts that have a topic of their own. */
  readonly ownTopics: readonly string[];
  readonly leaseMs: number;
  /** Gives way to the firing of hooks. Default: does not. */
  readonly pace?: Pace;
  readonly watch?: RelayWatch;
  readonly log?: Log;
}

/** Sees what a relay does. */
export interface RelayWatch {
  /** Events that are in Kafka and noted so. */
  sent(events: number, bytes: number, ms: number): void;
  failed(kind: KafkaFailure['kind'] | 'database'): void;
  /** Another owner had taken over while this one was sending. */
  fenced(): void;
  /** So many events were larger than their topic takes, and their bytes went to the topic of blobs. */
  large(events: number): void;
}

/** What outlives a turn: a producer that failed takes nothing with it. */
export class RelayMemory {
  /** In the topic, and noted so. */
  readonly sentBlobs = new LRUCache<string, true>({ max: 100_000 });
  /** Sent and not noted: what a successor must look at when it turns out that there is one. */
  unnoted: { readonly keys: string[]; readonly blobs: RelayedBlob[] } = { keys: [], blobs: [] };
  /** By topic: lowered when a broker refuses what its settings seemed to allow. */
  readonly limits = new Map<string, number>();
  /** Accounts whose own topic may have what was purged. */
  readonly purgesDue: Set<string>;
  /** Since when the broker owes an answer, as `performance.now` tells it. */
  sendingSince: number | null = null;
  tidiedAt = -Infinity;
  bodiesLookedAt = -Infinity;
  purging: Promise<void> | null = null;
  /** Why purged events are still in a topic of their account's own. */
  purgeTrouble: string | null = null;
  wake: () => void = () => undefined;

  constructor(ownTopics: readonly string[]) {
    this.purgesDue = new Set(ownTopics);
  }
}

/** A blob on its way to its topic. */
interface SendableBlob {
  readonly hash: string;
  readonly keyId: string | null;
  readonly bytes: Uint8Array;
  /** Global position of the event whose bytes it is. */
  readonly ofEvent?: bigint;
}

/** Events in one round: more of them share what a round costs, and hold up who fires hooks for longer. */
export const batchEvents = 2_000;
/** Their bytes, but for the last one. */
const batchBytes = 8 * 1024 * 1024;
/** Bytes of blobs that are read and sent at once, but for the last one. */
const blobBytes = 4 * 1024 * 1024;
const keysAtOnce = 500;
/** Appends of other processes are noticed this late, ms. */
const pollMs = 25;
/** How often is seen to what is not events, ms. */
const tidyEveryMs = 1_000;
const bodiesEveryMs = 60_000;
/** How often the topics are looked at: whether they are there, and as they must be, ms. */
const topicsEveryMs = 20_000;
/** After purged events could not be removed from a topic, ms. */
const purgeRetryMs = 30_000;
/** Room in a topic's largest batch for what is not the value, bytes. */
const overhead = 512;
/** No topic is believed to take less than this, bytes. */
const smallestLimit = 2_048;

/**
 * One owner with one producer. Its lease may end at any time: it looks before every send, and what it notes takes
 * effect only for the owner.
 */
export class RelayTurn {
  private readonly topics: ReadonlyMap<string, TopicState>;
  private lookedAt = performance.now();

  constructor(
    private readonly options: RelayOptions,
    private readonly memory: RelayMemory,
    private readonly ownership: Ownership,
    private readonly producer: Producer,
    topics: readonly TopicState[],
    /** `ce_source`. */
    private readonly source: string,
    private readonly stopping: AbortSignal,
    /** Told when something got through. */
    private readonly works: () => void,
    /** Looks at the topics again; rejects when there is no broker. */
    private readonly lookAtTopics: () => Promise<readonly TopicState[]>,
  ) {
    this.topics = new Map(topics.map((topic) => [topic.name, topic]));
  }

  /** Resolves when it is stopped or the lease is over; rejects when something fails. */
  async run(from: bigint): Promise<void> {
    const { sql, pace } = this.options;
    const read = (after: bigint): Promise<RelayBatch> => {
      const reading = readBatch(sql, after, batchEvents, batchBytes);
      // Read ahead: its failure shows when it is waited for.
      reading.catch(() => undefined);
      return reading;
    };
    let next = read(from);
    let position = from;
    while (this.mayGoOn()) {
      const { records, isFull } = await next;
      const last = records.at(-1);
      if (last === undefined) {
        await this.tidy();
        this.works();
        await this.rest();
        next = read(position);
        continue;
      }
      position = last.globalPosition;
      if (isFull) next = read(position);
      const work = (): Promise<void> => this.relay(records);
      await (pace === undefined ? work() : pace(isFull ? batchEvents : records.length, work));
      await this.tidy();
      if (!isFull) next = read(position);
    }
  }

  private mayGoOn(): boolean {
    return !this.stopping.aborted && this.ownership.isHeld();
  }

  /** Keys and blobs first: nothing in the topic of events ever names what is not in theirs. */
  private async relay(records: readonly EventRecord[]): Promise<void> {
    const started = performance.now();
    await this.sendKeys();
    await this.sendBlobs(records);
    await this.sendLeaves(records);
    await this.sendEvents(records);
    const last = records.at(-1);
    if (last === undefined) return;
    const { blobs } = this.memory.unnoted;
    await commitProgress(this.ownership, last.globalPosition, blobs);
    this.memory.unnoted = { keys: [], blobs: [] };
    for (const { hash, ofEvent } of blobs) if (ofEvent === null) this.memory.sentBlobs.set(hash, true);
    for (const { type, account } of records) {
      if (type === 'retention.purged' && this.hasOwnTopic(account)) this.memory.purgesDue.add(account);
    }
    const bytes = records.reduce((sum, record) => sum + record.bytes.length, 0);
    this.options.watch?.sent(records.length, bytes, performance.now() - started);
    this.works();
  }

  private async sendKeys(): Promise<void> {
    const { sql, names } = this.options;
    for (;;) {
      const keys = await unsentKeys(sql, keysAtOnce);
      if (keys.length === 0) return;
      for (const key of keys) this.memory.unnoted.keys.push(key.kind === 'living' ? key.record.id : key.id);
      await this.send(
        names.keys,
        keys.map((key) => (key.kind === 'living' ? encodeDataKey(key.record) : dataKeyTombstone(key.id))),
      );
      await noteSentKeys(this.ownership, keys);
      this.memory.unnoted.keys.splice(0);
      if (keys.length < keysAtOnce) return;
    }
  }

  private async sendBlobs(records: readonly EventRecord[]): Promise<void> {
    const { sql } = this.options;
    const { sentBlobs } = this.memory;
    const named = new Set(records.flatMap(({ bytes }) => blobsIn(bytes)).filter((hash) => !sentBlobs.has(hash)));
    if (named.size === 0) return;
    const found = await lookUpBlobs(sql, [...named]);
    for (const { hash, isSent } of found) if (isSent) sentBlobs.set(hash, true);
    let some: string[] = [];
    let bytes = 0;
    for (const { hash, isSent, size } of found) {
      if (isSent || size === null) continue;
      some.push(hash);
      bytes += size;
      if (bytes < blobBytes) continue;
      await this.sendParts(await readBlobs(sql, some));
      some = [];
      bytes = 0;
    }
    if (some.length > 0) await this.sendParts(await readBlobs(sql, some));
  }

  private async sendParts(blobs: readonly SendableBlob[]): Promise<void> {
    const { blobs: topic } = this.options.names;
    const messages: OutgoingMessage[] = [];
    for (const { hash, keyId, bytes, ofEvent = null } of blobs) {
      const parts = encodeBlob({ hash, keyId }, bytes, this.limitOf(topic));
      this.memory.unnoted.blobs.push({ hash, parts: parts.length, ofEvent });
      messages.push(...parts);
    }
    await this.send(topic, messages);
  }

  /** The bytes of an event that is too large for its topic go to the topic of blobs, before what names them. */
  private async sendEvents(records: readonly EventRecord[]): Promise<void> {
    const { names } = this.options;
    const bodies: SendableBlob[] = [];
    const byTopic = new Map<string, OutgoingMessage[]>();
    for (const record of records) {
      const topic = names.eventsOf(record.account);
      const maxBytes = this.limitOf(topic);
      const message = encodeEvent(record, { source: this.source, epoch: this.ownership.epoch, maxBytes });
      const hash = message.headers.ce_dataref?.slice('blob:'.length);
      if (hash !== undefined) bodies.push({ hash, keyId: null, bytes: record.bytes, ofEvent: record.globalPosition });
      const messages = byTopic.get(topic);
      if (messages === undefined) byTopic.set(topic, [message]);
      else messages.push(message);
    }
    if (bodies.length > 0) await this.sendParts(bodies);
    for (const [topic, messages] of byTopic) await this.send(topic, messages);
    if (bodies.length > 0) this.options.watch?.large(bodies.length);
  }

  /** Bytes of a message that this topic takes. */
  private limitOf(topic: string): number {
    const told = (this.topics.get(topic)?.maxMessageBytes ?? smallestLimit) - overhead;
    return Math.max(smallestLimit, Math.min(told, this.memory.limits.get(topic) ?? told));
  }

  private async send(topic: string, messages: readonly OutgoingMessage[]): Promise<void> {
    if (messages.length === 0) return;
    if (!this.ownership.isHeld()) throw new KafkaFailure('unavailable', 'the lease ran out', 'LEASE');
    this.memory.sendingSince = performance.now();
    try {
      await this.producer.send(topic, messages);
    } catch (error) {
      if (error instanceof KafkaFailure && error.kind === 'too-large') {
        this.memory.limits.set(topic, Math.max(smallestLimit, Math.floor(this.limitOf(topic) / 2)));
      }
      throw error;
    } finally {
      this.memory.sendingSince = null;
    }
  }

  /** Sees to what is not events, every second. */
  private async tidy(): Promise<void> {
    const now = performance.now();
    if (now - this.memory.tidiedAt < tidyEveryMs || !this.mayGoOn()) return;
    this.memory.tidiedAt = now;
    await this.sendKeys();
    await this.forgetBlobs(now);
    await this.sendCheckpoints();
    this.purgeOwnTopics();
    if (now - this.lookedAt >= topicsEveryMs) await this.checkTopics(now);
  }

  /** A broker that went away while there was nothing to send, and what an operator changed or mended. */
  private async checkTopics(now: number): Promise<void> {
    this.lookedAt = now;
    const states = await this.lookAtTopics();
    const others = states.filter(({ name, partitions, maxMessageBytes, isNew }) => {
      const known = this.topics.get(name);
      return isNew || known?.partitions !== partitions || known.maxMessageBytes !== maxMessageBytes;
    });
    if (others.length > 0) throw new KafkaFailure('unavailable', 'a topic was made anew or changed', 'TOPIC_CHANGED');
  }

  private async forgetBlobs(now: number): Promise<void> {
    const { sql, names } = this.options;
    if (now - this.memory.bodiesLookedAt >= bodiesEveryMs) {
      await noteGoneBodies(sql);
      this.memory.bodiesLookedAt = now;
    }
    const gone = await goneBlobs(sql);
    if (gone.length === 0) return;
    const forgotten = gone.filter(({ back }) => !back);
    // From now on, a blob that comes back is sent again.
    for (const { hash } of forgotten) this.memory.sentBlobs.delete(hash);
    await this.send(
      names.blobs,
      forgotten.flatMap(({ hash, parts }) => blobTombstones(hash, parts)),
    );
    const back = gone.filter((blob) => blob.back).map(({ hash }) => hash);
    await settleGoneBlobs(
      this.ownership,
      forgotten.map(({ hash }) => hash),
      back,
    );
  }

  private async sendCheckpoints(): Promise<void> {
    const { sql, names } = this.options;
    const notes = await readNotes(sql);
    for (const key of await readLogKeys(sql)) {
      const message = encodeLogKey(key);
      const said = Buffer.from(message.value ?? []).toString('utf8');
      const name = `log-key/${key.id}`;
      if (notes.get(name) === said) continue;
      await this.send(names.keys, [message]);
      await writeNote(this.ownership, name, said);
    }
    const checkpoints = await readCheckpoints(sql, BigInt(notes.get('checkpoints') ?? -1));
    const last = checkpoints.at(-1);
    if (last === undefined) return;
    await this.send(names.checkpoints, checkpoints.map(encodeCheckpoint));
    await writeNote(this.ownership, 'checkpoints', String(last.sequence));
  }

  /** What a purge took keeps its place in the tree: its leaves are in the topic before the event that says so. */
  private async sendLeaves(records: readonly EventRecord[]): Promise<void> {
    const purges = records.filter(({ type }) => type === 'retention.purged');
    for (const { account, bytes } of purges) {
      for (const leaves of await purgedLeaves(this.options.sql, account, bytes)) {
        await this.send(this.options.names.checkpoints, encodeLeaves(leaves));
      }
    }
  }

  private hasOwnTopic(account: string): boolean {
    return this.options.names.eventsOf(account) !== this.options.names.events;
  }

  /** Beside the relaying, since it reads the topics: one at a time. */
  private purgeOwnTopics(): void {
    const { memory } = this;
    const { names } = this.options;
    const [account] = memory.purgesDue;
    if (account === undefined || memory.purging !== null) return;
    memory.purgesDue.delete(account);
    memory.purging = this.purgeOwnTopic(account)
      .then(
        () => this.pause(tidyEveryMs),
        async (error: unknown) => {
          const why = error instanceof KafkaFailure ? error.message : 'the log cannot be read';
          memory.purgeTrouble = `purged events are still in ${names.eventsOf(account)}: ${why}`;
          memory.purgesDue.add(account);
          await this.pause(purgeRetryMs);
        },
      )
      .finally(() => {
        memory.purging = null;
      });
  }

  private async purgeOwnTopic(account: string): Promise<void> {
    const { sql, kafka, names, log } = this.options;
    const records = await purgeTopic(sql, kafka, account, names.eventsOf(account));
    this.memory.purgeTrouble = null;
    if (records > 0n)
      log?.('info', 'purged events were removed from their topic', { account, records: String(records) });
    // The purger goes on after the event that says so.
    if (await isPurging(sql, account)) this.memory.purgesDue.add(account);
  }

  /** Until something may have been appended. */
  private async rest(): Promise<void> {
    const woken = new AbortController();
    this.memory.wake = () => woken.abort();
    await this.pause(pollMs, woken.signal);
    this.memory.wake = () => undefined;
  }

  private async pause(ms: number, woken?: AbortSignal): Promise<void> {
    const signal = woken === undefined ? this.stopping : AbortSignal.any([woken, this.stopping]);
    await delay(ms, undefined, { signal, ref: false }).catch(() => undefined);
  }
}

/** Blobs that an event names. In canonical bytes a quote within a text is escaped: this finds members only. */
const blobsIn = (bytes: Uint8Array): readonly string[] => {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const found: string[] = [];
  for (let at = buffer.indexOf(blobMember); at !== -1; at = buffer.indexOf(blobMember, at + blobMember.length)) {
    const hash = buffer.toString('latin1', at + blobMember.length, at + blobMember.length + 65);
    if (/^[0-9a-f]{64}"$/u.test(hash)) found.push(hash.slice(0, -1));
  }
  return found;
};

const blobMember = Buffer.from('"$blob":"');
