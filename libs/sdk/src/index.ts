/// <reference lib="esnext.disposable" preserve="true" />
export { createClient } from './client.js';
export type { Client, ClientOptions, Effect, EffectOptions, EffectReport } from './client.js';
export type { CallOptions, ConnectionOptions } from './connection.js';
export type { Backoff } from './backoff.js';
export type {
  Answer,
  Cancellation,
  Decision,
  Envelope,
  FireArgs,
  Gate,
  HandlerRun,
  HookName,
  LocalAnswer,
  RecordedAnswer,
  Value,
} from './answer.js';
export type { BatchAnswer, BatchAnswers, BatchItem, FireOptions, WhenUnreachable } from './firing.js';
export type { Dialects, KohakuHooks, MiddlewareHooks, OpenClawHooks } from './generated/hooks.js';
export { HookledgerProblem, MissingEvents, StillRunning, Unreachable } from './problems.js';
export type { Fault } from './problems.js';
export { memoryOutbox } from './outbox.js';
export type { Outbox, Report, Told } from './outbox.js';
export { memoryCheckpoints } from './follow.js';
export type { Checkpoints, FollowOptions, Purged, Subscription } from './follow.js';
export type {
  Clears,
  ClearCompletion,
  ClearStart,
  CompletedClear,
  CompletedRun,
  Cron,
  CronJob,
  CronSlot,
  DeclaredJob,
  Lease,
  Mission,
  MissionEnd,
  PendingCompletion,
  PendingCompletions,
  SlotDecision,
  SlotEnd,
  StartedClear,
  Step,
} from './lifecycles.js';
export type { DrainedInjections, EnqueuedInjection, ExtensionPatch, Injection, Sessions } from './sessions.js';
export type {
  Actor,
  Approval,
  ApprovalDecision,
  ApprovalFilter,
  Approvals,
  Grant,
  GrantFilter,
  Page,
  Shown,
} from './approvals.js';
export type {
  HostCall,
  HostHandlers,
  HostLink,
  HostLinkOptions,
  LinkSocket,
  OpenSocket,
  SshResult,
} from './host-link.js';
export { isSealed } from './events.js';
export type { LedgerEvent, Sealed } from './events.js';
export { canonicalJson, digestOf } from './digest.js';
export type { Json, JsonObject } from './json.js';
