export type {
  Append,
  AppendResult,
  BlobWrite,
  Claim,
  ClaimRequest,
  CommandResult,
  CompletedCommand,
  EventStore,
  ReadRange,
  StoredEvent,
  StreamWrite,
} from './event-store.js';
export { LogBusy, LogRefused, LogUnavailable } from './event-store.js';
export type { Row, Sql } from './sql.js';
export type { MemoryStoreOptions } from './memory-store.js';
export { memoryEventStore } from './memory-store.js';
export type { Log, PoolOptions } from './postgres/pool.js';
export { createPool, sqlOver } from './postgres/pool.js';
export type { NoticeOptions, Notices } from './postgres/notices.js';
export { listenForNotices } from './postgres/notices.js';
export type { PostgresStoreOptions } from './postgres/postgres-store.js';
export { postgresEventStore } from './postgres/postgres-store.js';
export type { Follower, FollowerLag, FollowerOptions } from './follower.js';
export { startFollower } from './follower.js';
export type { OpenLogSource } from './postgres/log-source.js';
export { NoLog, openLogSource } from './postgres/log-source.js';
export type { LogTail } from './log-tail.js';
export { joinTail } from './log-tail.js';
export { timeOrderedIds } from './time-ordered-ids.js';
