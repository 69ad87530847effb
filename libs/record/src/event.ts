import type { JsonObject } from './json.js';

/**
 * A value under a data key (events.md §3): inline up to 1 KiB, else a reference to a blob.
 * Only `sealing` makes and opens one.
 */
export type Sealed =
  | { readonly $sealed: { readonly v: 1; readonly k: string; readonly b: string } }
  | { readonly $blob: string; readonly k: string; readonly size: number };

/** Who did it. `onBehalfOf` is the person behind a key, as the caller named them. */
export interface Actor {
  readonly kind: 'key' | 'operator' | 'system' | 'plugin';
  readonly id: string;
  readonly onBehalfOf?: string;
}

/** What every event may carry beside its `data`; fields that do not apply are absent. */
export interface EventFields {
  readonly occurredAt?: string;
  readonly actor?: Actor;
  readonly invocationId?: string;
  readonly attempt?: number;
  readonly operationId?: string;
  readonly turnId?: string;
  readonly turnInferred?: boolean;
  readonly sessionId?: string;
  readonly agentId?: string;
  readonly correlationId?: string;
  readonly root?: string;
  readonly cause?: string;
  readonly hop?: number;
  readonly dialect?: string;
  readonly hook?: string;
  readonly pluginId?: string;
  readonly pluginVersion?: string;
  readonly pluginRevision?: number;
  readonly target?: string;
  readonly durationMs?: number;
  readonly outcome?: string;
  readonly reasonCode?: string;
}

/** An event before it is stored: the log adds id, schema, account, stream, version and times. */
export interface NewEvent extends EventFields {
  readonly type: EventType;
  readonly data: JsonObject;
}

/** The event as its canonical bytes say it. */
export interface RecordedEvent extends EventFields {
  readonly id: string;
  readonly type: EventType;
  readonly schema: number;
  readonly account: string;
  readonly stream: string;
  readonly streamVersion: number;
  readonly recordedAt: string;
  readonly occurredAt: string;
  readonly data: JsonObject;
}

const types = [
  'invocation.opened',
  'session.withheld',
  'handler.started',
  'host.called',
  'host.answered',
  'host.refused',
  'handler.passed',
  'handler.rewrote',
  'handler.cancelled',
  'handler.observed',
  'handler.claimed',
  'handler.held',
  'handler.skipped',
  'handler.not_run',
  'invocation.held',
  'invocation.closed',
  'invocation.lost',
  'invocation.missed',
  'effect.reported',
  'plugin.installed',
  'plugin.versioned',
  'plugin.enabled',
  'plugin.disabled',
  'plugin.configured',
  'plugin.permissions_changed',
  'plugin.mode_changed',
  'plugin.order_changed',
  'plugin.rolled_back',
  'plugin.uninstalled',
  'plugin.tried',
  'plugin.load_failed',
  'plugin.instance_started',
  'plugin.tripped',
  'session.clear_started',
  'session.cleared',
  'injection.enqueued',
  'injection.drained',
  'injection.expired',
  'injection.dropped',
  'extension.patched',
  'extension.cleaned',
  'extension.cleanup_called',
  'cron.job_declared',
  'cron.slot_overlapped',
  'cron.slot_missed',
  'cron.run_started',
  'cron.run_leased',
  'cron.run_cancelled',
  'cron.run_closed',
  'cron.run_notified',
  'cron.run_lost',
  'approval.requested',
  'approval.decided',
  'approval.timed_out',
  'approval.cancelled',
  'approval.digest_mismatch',
  'approval.resolution_delivered',
  'approval.resolution_undeliverable',
  'approval.grant_created',
  'approval.grant_used',
  'approval.grant_revoked',
  'account.created',
  'settings.changed',
  'secret.set',
  'account.halted',
  'account.resumed',
  'key.created',
  'key.revoked',
  'audit.read',
  'export.created',
  'replay.started',
  'replay.finished',
  'retention.set',
  'retention.purged',
  'hold.placed',
  'hold.released',
  'payload.erased',
  'alarm.raised',
  'instance.started',
  'instance.heartbeat',
  'log_key.rotated',
  'master_key.rotated',
] as const;

/** The vocabulary of events.md §2, one for all dialects. */
export type EventType = (typeof types)[number];

/** Every event type, in the order of events.md §2. */
export const eventTypes: readonly EventType[] = types;

/** Narrows a string to a known event type. */
export const isEventType = (value: string): value is EventType => (types as readonly string[]).includes(value);
