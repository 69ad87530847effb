/** A message as it is sent. */
export interface OutgoingMessage {
  readonly key: string;
  /** Null is a tombstone: a compacted topic forgets the key. */
  readonly value: Uint8Array | null;
  readonly headers: Readonly<Record<string, string>>;
  /** What decides the partition instead of the whole key: the parts of one blob stay together. */
  readonly partitionKey?: string;
}

/** A message as a reader gets it. */
export interface ConsumedMessage {
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
  /** When the broker says it was sent, ms since 1970. */
  readonly timestamp: number;
  readonly key: string | null;
  readonly value: Uint8Array | null;
  readonly headers: Readonly<Record<string, string>>;
}

/** Sends in order. One send at a time: a second one waits for the first. */
export interface Producer {
  /**
   * Resolves when all in-sync replicas have every message, in the order given within each partition. Rejects with
   * `KafkaFailure`; some of the messages may then be in the topic. A repeat after a failure may write them twice, and
   * never behind a later message of the same call.
   */
  send(topic: string, messages: readonly OutgoingMessage[]): Promise<void>;
  close(): Promise<void>;
}

/** `keep`: every message, for good. `compact`: the newest message of each key, until a tombstone. */
export type TopicPolicy = 'keep' | 'compact';

/** A topic as this program wants it. */
export interface TopicSpec {
  readonly name: string;
  readonly policy: TopicPolicy;
  /** For a new topic; an existing one keeps what it has, and a finding says so. */
  readonly partitions: number;
  /** For a new topic; `null` = the broker's default. */
  readonly replicas: number | null;
}

/** A topic as it is. */
export interface TopicState {
  readonly name: string;
  readonly partitions: number;
  /** Bytes of the largest record batch that the topic takes. */
  readonly maxMessageBytes: number;
  /** True when it was not there and this call made it. */
  readonly isNew: boolean;
  /** In words for an operator: what is not as it must be (finite retention, other partitions, another policy). */
  readonly findings: readonly string[];
}

/** Where a partition begins and ends: offsets `[low, high)` can be read. */
export interface PartitionOffsets {
  readonly partition: number;
  readonly low: bigint;
  readonly high: bigint;
}

export interface Topics {
  /** Makes what is missing; never changes what is there. Any number of replicas may do so at once. */
  ensure(specs: readonly TopicSpec[]): Promise<readonly TopicState[]>;
  /** By partition, ascending. Null when there is no such topic. */
  offsets(topic: string): Promise<readonly PartitionOffsets[] | null>;
  /** Removes the records below each offset, for good. */
  deleteBefore(
    topic: string,
    before: readonly { readonly partition: number; readonly offset: bigint }[],
  ): Promise<void>;
  close(): Promise<void>;
}

/** Options of `readTopic`. */
export interface ReadTopicOptions {
  readonly topic: string;
  /** Where to begin in each partition; default: at its beginning. */
  readonly from?: ReadonlyMap<number, bigint>;
  /** Stops before these offsets; default: where each partition ended when the reading began. `never` = follow it. */
  readonly until?: ReadonlyMap<number, bigint> | 'never';
  /** Messages of one partition, in order. The next ones of that partition come when it resolves; a throw ends the reading. */
  readonly handle: (messages: readonly ConsumedMessage[]) => Promise<void>;
  /** Asked after each `handle`: the partition is not read on before what it answers resolves; the others are. */
  readonly hold?: (partition: number) => Promise<void> | null;
  readonly signal?: AbortSignal;
}

/** Options of `joinGroup`. */
export interface GroupOptions {
  readonly group: string;
  readonly topics: readonly string[];
  /**
   * Messages of one partition, in order, from the group's committed offset (first: from the beginning). The offset is
   * committed after it resolves, so a crash brings messages again. A throw brings the batch again after a pause.
   */
  readonly handle: (batch: GroupBatch) => Promise<void>;
  /**
   * Where to begin in the partitions that this member has now, instead of the group's committed offsets: for who keeps
   * the offsets beside the effects. Nothing is read before it resolves; a throw makes the member join again.
   */
  readonly from?: (
    partitions: ReadonlyMap<string, readonly number[]>,
  ) => Promise<ReadonlyMap<string, ReadonlyMap<number, bigint>>>;
  /** Partitions that this member has now, by topic: after each rebalance. */
  readonly assigned?: (partitions: ReadonlyMap<string, readonly number[]>) => void;
  /** How long a silent member keeps its partitions, ms. Default 10,000. */
  readonly sessionMs?: number;
}

/** What a group member is given at once. */
export interface GroupBatch {
  readonly topic: string;
  readonly partition: number;
  readonly messages: readonly ConsumedMessage[];
  /** End of the partition as the broker last said: offset of the next message that it will take. */
  readonly high: bigint;
  /** Tells the broker that this member lives; call it between long steps. */
  heartbeat(): Promise<void>;
  /** True when the partition was taken away: what is done then may be done by another member too. */
  isStale(): boolean;
}

/** A member of a consumer group. */
export interface GroupMember {
  /** Finishes what it is at, leaves the group, resolves. */
  stop(): Promise<void>;
}

/** A connection to a cluster; nothing connects before it is asked for something. */
export interface Kafka {
  /**
   * Connects an idempotent producer (acks of all replicas, one send in flight). Rejects with `KafkaFailure`: a producer
   * whose connecting failed must not be used, it would send without idempotence. It sends to these topics only. After a
   * failed send, close it and connect another: the broker may have forgotten this one, or have half of its messages.
   */
  producer(topics: readonly ProducedTopic[]): Promise<Producer>;
  /** For asking about and making topics. Rejects with `KafkaFailure`. */
  topics(): Promise<Topics>;
  /** Reads without a group of consumers and without commits. Resolves at the end, or when the signal says so. */
  readTopic(options: ReadTopicOptions): Promise<void>;
  /** Joins and stays in through outages; rejects with `KafkaFailure` when the first connecting fails. */
  joinGroup(options: GroupOptions): Promise<GroupMember>;
}

/** What a producer needs to know of a topic; `Topics.ensure` answers it. */
export type ProducedTopic = Pick<TopicState, 'name' | 'partitions' | 'maxMessageBytes'>;

/** Why Kafka did not do what it was asked to; the message is for an operator and holds neither content nor secrets. */
export class KafkaFailure extends Error {
  override readonly name = 'KafkaFailure';

  constructor(
    /** `too-large`: the topic does not take a message of this size; only smaller ones help. */
    readonly kind: 'unavailable' | 'refused' | 'too-large',
    message: string,
    /** The client's own word for it. */
    readonly code: string,
  ) {
    super(message);
  }
}
