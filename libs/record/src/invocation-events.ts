import type { Json, JsonObject } from './json.js';
import type { Sealed } from './event.js';

/** `data` of the events of an invocation stream. The gateway writes them, the read models read them. */

/** One plugin of the chain in force, as `invocation.opened` names it. */
export interface ChainEntry {
  readonly pluginId: string;
  readonly version: string;
  readonly revision: number;
  readonly mode: 'enforce' | 'observe';
  readonly failureMode: 'open' | 'closed';
  readonly priority: number | null;
  readonly configDigest: string;
}

export interface InvocationOpened {
  /** The chain in force for this hook, in the order it runs; a plugin that is not loaded is named with its handler. */
  readonly chain: readonly ChainEntry[];
  /** Enabled plugins of the account that have no handler for this hook. */
  readonly withoutHook: number;
  /** The hook's own arguments as they came. */
  readonly context: Sealed;
  readonly hostSession: 'granted' | 'withheld' | 'absent';
  readonly previousInvocationId?: string;
  /** A target that is a person's address; the event's `target` is then its HMAC. */
  readonly target?: Sealed;
  /** The invocation whose chain snapshot was used (`chainOf`). */
  readonly chainOf?: string;
  /** Earlier invocation this one descends from through a model turn (MW-104). */
  readonly lineage?: string;
  /** HMAC of the caller's `dataSubject`, and the subject itself sealed. */
  readonly dataSubject?: { readonly hmac: string; readonly sealed: Sealed };
  /** With an inferred turn: whether that turn has had its system prompt, this firing included. */
  readonly turnPrompted?: boolean;
  /** Stream of the clear or the cron run that the platform fired this hook for. */
  readonly firedFor?: string;
  /** Set when the account's plugins were halted and which way. */
  readonly halted?: 'open' | 'closed';
  /** What the host says it went through: a session's end, a cron job's change, a subagent, its gateway. */
  readonly observed?: {
    readonly kind: 'session' | 'subagent' | 'cron' | 'gateway';
    readonly facts: JsonObject;
    readonly content: Sealed | null;
  };
  /** The server process that ran it, where the opening was written before the end. */
  readonly instance?: string;
}

/** A warning as stored: the code is public, the detail is content. */
export interface StoredWarning {
  readonly code: string;
  readonly detail: Sealed | null;
}

/** `data` of `handler.passed`, `rewrote`, `cancelled`, `observed`, `claimed`, `held`, `skipped`. */
export interface HandlerRan {
  /** Place in the chain, from 0. */
  readonly index: number;
  /** The mutable part of the value before and after this handler; null where the hook has none. */
  readonly input: Sealed | null;
  readonly output: Sealed | null;
  readonly changed: readonly string[];
  readonly budgetMs: number;
  /** Run time in whole microseconds; the event's `durationMs` is the same rounded to whole milliseconds. */
  readonly durationUs: number;
  readonly warnings: readonly StoredWarning[];
  readonly configDigest: string;
  readonly mode: 'enforce' | 'observe';
  /** With mode `observe`: what the verdict would have been. */
  readonly wouldHave?: string;
  /** With `wouldHave`: the value or the reason it would have given. */
  readonly wouldHaveOutput?: Sealed | null;
  /** `handler.skipped`: why it did not decide. */
  readonly cause?: 'threw' | 'timed_out' | 'malformed' | 'crashed' | 'not_loaded';
  /** `handler.cancelled`: the reason as recorded (MW-42). */
  readonly reason?: Sealed | null;
  /** Lines of `host.log` over the limit of one run: counted, not kept. */
  readonly logLinesDropped?: number;
  /** Where an exception came from that was swallowed, where the dialect keeps that. */
  readonly traceback?: Sealed;
}

/** `data` of `handler.not_run`. */
export interface HandlerNotRun {
  readonly index: number;
  readonly cause: 'not_loaded' | 'not_applicable' | 'after_cancel';
  readonly warnings: readonly StoredWarning[];
}

/** `data` of `host.called`, `host.refused`, `host.answered`. */
export interface HostCall {
  /** Place of the handler that asks, where its plugin has several in the chain. */
  readonly index?: number;
  readonly callId: string;
  readonly member: string;
  readonly args?: Sealed;
  /** `host.answered`. */
  readonly ok?: boolean;
  /** `host.answered`, with `ok: false`: nobody will know whether it had its effect. */
  readonly unknown?: boolean;
  readonly result?: Sealed;
  /**
   * `host.refused`: a code such as `ssh_call_limit`, `id_must_be_string`, `bad_timeout`, `no_runtime`. `host.answered`:
   * why it failed or is unknown, where there is a code for it.
   */
  readonly code?: string;
}

/** `data` of `invocation.closed`: with the handlers' events, all that an answer is rebuilt from. */
export interface InvocationClosed {
  readonly value: Sealed | null;
  readonly cancellation: {
    readonly pluginId: string | null;
    readonly reason: Sealed | null;
    readonly code: string | null;
  } | null;
  readonly hostSession: 'granted' | 'withheld' | 'absent';
  /** Handler runs that are metered (MW-55). */
  readonly metered: number;
  /** Fields that the dialect adds to the answer, a JSON object; absent: none. */
  readonly more?: Sealed;
}

/** `data` of `invocation.lost`. */
export interface InvocationLost {
  /** Handler runs that are metered: those that ended, and those that had started. */
  readonly metered: number;
  /** The first handler that had started and did not end. */
  readonly handlerIndex?: number;
  /** `given_up`: the process lives and could not write the end. */
  readonly cause?: 'instance_gone' | 'given_up';
  readonly instance?: string | null;
  /** `unknown`: nothing is on record of it; it may have run, without an effect outside. */
  readonly handlers?: readonly {
    readonly index: number;
    readonly pluginId: string;
    readonly state: 'ended' | 'lost' | 'unknown';
  }[];
  readonly hostCalls?: readonly {
    readonly callId: string;
    readonly member: string;
    readonly pluginId: string | null;
    readonly state: 'done' | 'failed' | 'refused' | 'unknown';
  }[];
}

/** `data` of `invocation.missed`: a hook that was not fired, since the platform could not be reached. */
export interface InvocationMissed {
  /** What the runtime did on its own: it went on, or it did not. */
  readonly decision: 'open' | 'closed';
  /** How often it tried. */
  readonly attempts: number;
  /** The hook's own arguments as they would have come. */
  readonly context: Sealed;
  /** SHA-256 of the idempotency key under which it tried. */
  readonly firingKey?: string;
  /** The invocation, where one of the attempts had come through all the same. */
  readonly arrivedAs?: string;
  readonly dataSubject?: { readonly hmac: string; readonly sealed: Sealed };
  readonly target?: Sealed;
}

/** `data` of `effect.reported`. */
export interface EffectReported {
  readonly applied: boolean;
  /** The runtime's digest of what it applied, as sent. */
  readonly digest?: Sealed;
  /**
   * Whether that digest is the answer's: SHA-256 (hex) of the canonical JSON of `value`. Null when none was sent.
   * `applied` with `matches: false` reads as `different`.
   */
  readonly matches: boolean | null;
}

/** Stream of a firing that was missed, by the id of its report. */
export const missedStream = (reportId: string): string => `missed/${reportId}`;

/** Stream of an invocation. */
export const invocationStream = (invocationId: string): string => `invocation/${invocationId}`;

/** Typed as JSON for the log: the interfaces above are JSON by construction. */
export const asData = (data: object): { readonly [key: string]: Json } => data as { readonly [key: string]: Json };
