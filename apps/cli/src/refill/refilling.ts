import type { Sql } from '#event-store';
import type { Kafka, TopicNames } from '#kafka';
import type { MasterKeys } from '#sealing';
import type { Progress } from '../progress.js';

/** What a refill needs. */
export interface RefillParts {
  /** As the owner of the tables. */
  readonly sql: Sql;
  readonly kafka: Kafka;
  readonly names: TopicNames;
  readonly masters: MasterKeys;
  readonly progress: Progress;
}

/** The database cannot be refilled; the message says why, and nothing was written. */
export class RefillRefused extends Error {
  override readonly name = 'RefillRefused';
}

/** Inside the one transaction of a refill. */
export interface Refilling extends RefillParts {
  readonly warn: (warning: string) => void;
  /** Counts messages that were read. */
  readonly read: (messages: number) => void;
}
