import type { ApprovalEnd, ApprovalMode, ApprovalResolution, GateOutcome, HeldCall, ReadApproval } from '#dialects';
import { sameJson } from '#hooks';
import type { StreamWrite } from '#event-store';
import {
  asData,
  type ChainEntry,
  type EventFields,
  type InvocationClosed,
  type InvocationOpened,
  type Json,
  type JsonObject,
  type NewEvent,
  type RecordedEvent,
} from '#record';
import type { Realm } from '#sandbox';
import type { Envelope } from '#sealing';
import type { Positions } from './book.js';

/** Ids by which an approval is found, and the invocation that waits for it. */
export interface ApprovalWish {
  readonly account: string;
  readonly invocationId: string;
  readonly mode: ApprovalMode;
  readonly read: ReadApproval;
  readonly call: HeldCall;
  /** What the call would go on with. */
  readonly params: Json;
  readonly toolName: string | null;
  /** Who asks, and the world that waits to be told. */
  readonly entry: ChainEntry;
  readonly realm: Realm | null;
  /** Whether the account's rules on grants and parameters hold for it. */
  readonly followsSettings: boolean;
  readonly envelope: Envelope;
  /** What every event of the invocation says. */
  readonly fields: EventFields;
  /** The approval whose parameters were changed after it was given. */
  readonly renews: { readonly approvalId: string; readonly expected: string; readonly actual: string } | null;
}

interface Answered {
  /** What goes into the commit that says so. */
  readonly writes: readonly StreamWrite[];
}

/** What becomes of a wish: somebody is asked, or it has its end at once. */
export type Asked =
  | (Answered & { readonly approvalId: string; readonly end: null })
  | (Answered & {
      /** Null: it was put to nobody. */
      readonly approvalId: string | null;
      readonly end: ApprovalEnd | { readonly kind: 'unasked'; readonly mode: 'report' | 'deny' };
    });

/** Where wishes for an approval go; the chain knows nothing of how they are kept. */
export interface ApprovalDesk {
  ask(wish: ApprovalWish): Promise<Asked>;
  /** The digest that approvals are bound to. */
  digestOf(account: string, params: Json): Promise<string>;
  /** Its events are committed: who waits is told when it ends. */
  recorded(wish: ApprovalWish, asked: Asked): void;
}

/** What a held invocation goes on from; sealed in `invocation.held`. */
export interface HeldState {
  readonly call: HeldCall;
  /** The merged result so far. */
  readonly value: Json;
  readonly metered: number;
  readonly durationMs: number;
  readonly profile: string | null;
  /** What an approval before this one came to. */
  readonly resolution: ApprovalResolution | null;
}

/** A call that was allowed, and whose other handlers are to be asked. */
export interface Resumed {
  readonly version: number;
  readonly first: Positions['first'];
  readonly state: HeldState;
  /** The parameters that the call came with. */
  readonly given: Json;
  readonly approvalId: string;
  readonly resolution: ApprovalResolution;
  /** HMAC of the parameters that were allowed; null: they may change. */
  readonly boundTo: string | null;
}

/** The gate as answers show it while it waits. */
export const heldGate = ({ request, base }: HeldCall): JsonObject => {
  const { description } = request as { readonly description?: Json };
  return { blocked: true, kind: 'held', reason: typeof description === 'string' ? description : null, params: base };
};

/** Codes of cancellations that a person, or the lack of one, brought about. */
const codes = {
  blocked: 'approval_denied',
  timed_out: 'approval_timed_out',
  cancelled: 'approval_cancelled',
  failed: 'approval_unavailable',
} as const;

/** What a gate's outcome is as the end of an invocation. */
export interface GateEnd {
  readonly outcome: 'passed' | 'rewritten' | 'cancelled';
  readonly cancellation: {
    readonly pluginId: string | null;
    readonly reason: string | null;
    readonly code: string;
  } | null;
  readonly more: JsonObject;
}

/** Reads an outcome: `given` are the parameters that the call came with. */
export const endOfGate = (gate: GateOutcome, pluginId: string, given: Json, approvalId: string | null): GateEnd => {
  const { blocked, kind, reason, params, ...more } = gate;
  const shown = {
    gate: { blocked, kind, reason, params, ...(more as JsonObject) },
    ...(approvalId === null ? {} : { approvalId }),
  };
  if (!blocked) {
    return { outcome: sameJson(params, given) ? 'passed' : 'rewritten', cancellation: null, more: shown };
  }
  const code = gate.disposition === undefined ? codes.timed_out : codes[gate.disposition];
  return {
    outcome: 'cancelled',
    cancellation: {
      pluginId,
      reason,
      code: kind === 'veto' && reason === 'approval_required' ? 'approval_required' : code,
    },
    more: shown,
  };
};

/** What an end of a held invocation is made of. */
export interface HeldEnd {
  /** Its events so far, oldest first. */
  readonly events: readonly RecordedEvent[];
  readonly state: Pick<HeldState, 'value' | 'metered' | 'durationMs'>;
  readonly end: GateEnd;
  readonly envelope: Envelope;
  readonly fields: EventFields;
}

/** The events that close a held invocation of which nothing more runs: handlers that were never asked, then the end. */
export const closingOfHeld = ({ events, state, end, envelope, fields }: HeldEnd): readonly NewEvent[] => {
  const opened = events.find(({ type }) => type === 'invocation.opened');
  if (opened === undefined) throw new Error('an invocation without its opening');
  const { chain, hostSession } = opened.data as unknown as InvocationOpened;
  const seen = new Set(events.filter(({ type }) => type.startsWith('handler.')).map(({ data }) => data.index));
  const notAsked = chain.flatMap((entry, index): NewEvent[] =>
    seen.has(index)
      ? []
      : [
          {
            ...fields,
            type: 'handler.not_run',
            ...pluginOf(entry),
            data: { index, cause: 'after_cancel', warnings: [] },
          },
        ],
  );
  return [...notAsked, { ...fields, ...closedBy(end, state, hostSession, envelope) }];
};

/** `invocation.closed` for the end of a gate. */
export const closedBy = (
  { outcome, cancellation, more }: GateEnd,
  { value, metered, durationMs }: Pick<HeldState, 'value' | 'metered' | 'durationMs'>,
  hostSession: InvocationClosed['hostSession'],
  envelope: Envelope,
): NewEvent => {
  const sealedOrNull = (content: Json): InvocationClosed['value'] => (content === null ? null : envelope.seal(content));
  const closed: InvocationClosed = {
    value: sealedOrNull(value),
    cancellation: cancellation === null ? null : { ...cancellation, reason: sealedOrNull(cancellation.reason) },
    hostSession,
    metered,
    more: envelope.seal(more),
  };
  return {
    type: 'invocation.closed',
    outcome,
    durationMs,
    ...(cancellation === null ? {} : { reasonCode: cancellation.code }),
    data: asData(closed),
  };
};

export const pluginOf = (entry: ChainEntry): Pick<NewEvent, 'pluginId' | 'pluginVersion' | 'pluginRevision'> => ({
  pluginId: entry.pluginId,
  pluginVersion: entry.version,
  pluginRevision: entry.revision,
});
