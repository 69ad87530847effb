import { Inject, Injectable } from '@nestjs/common';
import { evolveApproval, unknownApproval, type Approval, type ApprovalEnding } from '#approvals';
import { dialectOf, resolutionOf, type ApprovalEnd, type Dialect, type DialectApprovals } from '#dialects';
import type { EventStore, StoredEvent } from '#event-store';
import { closingOfHeld, endOfGate, fieldsOfOpened, FiringSuperseded, invocationState, type HeldState } from '#firing';
import { EVENT_STORE, SEALING } from '#platform';
import {
  approvalStream,
  invocationStream,
  type InvocationHeld,
  type InvocationOpened,
  type Json,
  type JsonObject,
  type RecordedEvent,
  type Sealed,
} from '#record';
import type { Envelope, Scope, Sealing } from '#sealing';
import { HookFiring } from './hook-firing.js';

/** An approval with the event that asked. */
export interface FoundApproval {
  readonly approval: Approval;
  /** Events of its stream. */
  readonly version: number;
  readonly requested: RecordedEvent;
}

/** A held invocation whose approval has ended, opened. */
interface HeldInvocation {
  readonly account: string;
  readonly stored: readonly StoredEvent[];
  readonly opened: StoredEvent;
  readonly approvalId: string;
  readonly state: HeldState;
  readonly context: JsonObject;
  readonly dialect: Dialect;
  readonly approvals: DialectApprovals;
}

/**
 * Goes on with invocations that waited for an approval, from the log alone, on any replica: what the call comes to, or
 * the handlers that stand behind the policy that asked. The version of the invocation's own stream decides who did.
 */
@Injectable()
export class HeldInvocations {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    private readonly firing: HookFiring,
  ) {}

  /** The approval as its stream has it; null: there is none. */
  async approval(account: string, approvalId: string): Promise<FoundApproval | null> {
    const events = (await this.store.readStream(account, approvalStream(approvalId))).map(({ event }) => event);
    const requested = events.find(({ type }) => type === 'approval.requested');
    if (requested === undefined) return null;
    const version = events.at(-1)?.streamVersion ?? 0;
    return { approval: events.reduce(evolveApproval, unknownApproval), requested, version };
  }

  /** Resolves once the invocation has gone on from this approval, by this call or before; rejects as the log does. */
  async goOn(account: string, approvalId: string): Promise<void> {
    const found = await this.approval(account, approvalId);
    const invocationId = found?.requested.invocationId;
    if (found?.approval.ending === null || found === null || invocationId === undefined) return;
    const stored = await this.store.readStream(account, invocationStream(invocationId));
    if (waitingFor(stored) !== approvalId) return;
    const { ending, requested } = found.approval;
    const held = await this.read(account, approvalId, stored);
    if (held === null) return this.close(account, stored, found.requested, null, erased);
    const end = endOf(ending);
    const { approvals, state, context } = held;
    const gate = approvals.after(state.call, end);
    const pluginId = found.requested.pluginId ?? '';
    if (gate.blocked || !state.call.byPolicy) {
      const closing = endOfGate(gate, pluginId, approvals.paramsOf(context), approvalId);
      return this.close(account, stored, found.requested, state, closing);
    }
    await this.resume(held, gate.params, end, requested?.parametersDigest ?? null);
  }

  private async close(
    account: string,
    stored: readonly StoredEvent[],
    requested: RecordedEvent,
    state: HeldState | null,
    end: ReturnType<typeof endOfGate>,
  ): Promise<void> {
    const events = stored.map(({ event }) => event);
    const [opened] = events;
    if (opened === undefined) return;
    const envelope = await this.envelope(account, opened);
    const fields = { ...fieldsOfOpened(opened), ...(opened.actor === undefined ? {} : { actor: opened.actor }) };
    const nothing = { value: null, metered: 0, durationMs: 0 };
    const closing = closingOfHeld({ events, state: state ?? nothing, end, envelope, fields });
    const stream = invocationStream(requested.invocationId ?? '');
    const expectedVersion = events.at(-1)?.streamVersion ?? 0;
    // Where it moved meanwhile, somebody else went on with it.
    await this.store.append({
      account,
      writes: [{ stream, expectedVersion, events: closing }],
      blobs: envelope.blobs(),
    });
  }

  private async resume(held: HeldInvocation, params: Json, end: ApprovalEnd, digest: string | null): Promise<void> {
    const { account, stored, opened, approvalId, state, context, dialect, approvals } = held;
    const body = approvals.withParams(context, params);
    const opening = dialect.open(opened.event.hook ?? '', body);
    if (opening.kind === 'refused') throw new Error('a call that was held does not fit its hook any more');
    const version = stored.at(-1)?.event.streamVersion ?? 0;
    const resumed = {
      version,
      first: opened.position,
      state,
      given: approvals.paramsOf(context),
      approvalId,
      resolution: resolutionOf(end),
    };
    try {
      await this.firing.goOn({ account, opened, dialect, opening, resumed, digest });
    } catch (error) {
      if (!(error instanceof FiringSuperseded)) throw error;
    }
  }

  /** Null where what it needs was erased. */
  private async read(
    account: string,
    approvalId: string,
    stored: readonly StoredEvent[],
  ): Promise<HeldInvocation | null> {
    const [opened] = stored;
    const waits = stored.findLast(({ event }) => event.type === 'invocation.held');
    if (opened === undefined || waits === undefined) throw new Error('an invocation that is not held');
    const state = await this.open(account, (waits.event.data as unknown as InvocationHeld).state);
    const context = await this.open(account, (opened.event.data as unknown as InvocationOpened).context);
    if (state === null || context === null) return null;
    const { profile } = state as unknown as HeldState;
    const base = dialectOf(opened.event.dialect ?? '');
    const dialect = (profile === null ? undefined : base?.profiles?.get(profile)) ?? base;
    if (dialect?.approvals === undefined) throw new Error('a held invocation of a dialect without approvals');
    return {
      account,
      stored,
      opened,
      approvalId,
      state: state as unknown as HeldState,
      context,
      dialect,
      approvals: dialect.approvals,
    };
  }

  private async open(account: string, sealed: Sealed): Promise<JsonObject | null> {
    const opened = await this.sealing.open(account, sealed);
    return opened.kind === 'open' ? (opened.value as JsonObject) : null;
  }

  /** That of the firing: subject, else session, else account. What was erased is closed under the account's key. */
  private async envelope(account: string, { data, sessionId }: RecordedEvent): Promise<Envelope> {
    return this.sealing.envelope(account, await this.scope(account, data as unknown as InvocationOpened, sessionId));
  }

  private async scope(account: string, { dataSubject }: InvocationOpened, sessionId?: string): Promise<Scope> {
    if (dataSubject === undefined)
      return sessionId === undefined ? { kind: 'account' } : { kind: 'session', id: sessionId };
    const opened = await this.sealing.open(account, dataSubject.sealed);
    return opened.kind === 'open' ? { kind: 'subject', id: opened.value as string } : { kind: 'account' };
  }
}

/** The approval that an invocation waits for now; null: it does not wait. */
const waitingFor = (stored: readonly StoredEvent[]): string | null => {
  if (invocationState(stored) !== 'held') return null;
  const held = stored.findLast(({ event }) => event.type === 'invocation.held');
  return held === undefined ? null : (held.event.data as unknown as InvocationHeld).approvalId;
};

/** How an ending reads to the dialect. */
export const endOf = (ending: ApprovalEnding | null): ApprovalEnd => {
  switch (ending?.kind) {
    case 'decided':
      return { kind: 'decided', decision: ending.decision };
    case 'timed_out':
      return { kind: 'unanswered' };
    case 'cancelled':
      if (ending.cause === 'aborted') return { kind: 'aborted' };
      return { kind: 'unavailable', reason: `Plugin approval ${ending.cause}` };
    case undefined:
      throw new Error('an approval that has not ended');
  }
};

/** What a call comes to of which nothing is left to go on with. */
const erased: ReturnType<typeof endOfGate> = {
  outcome: 'cancelled',
  cancellation: { pluginId: null, reason: null, code: 'approval_cancelled' },
  more: {},
};
