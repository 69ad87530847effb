import type { Link, Step, Verdict } from '#hooks';
import type { StoredEvent } from '#event-store';
import type {
  ChainEntry,
  HandlerNotRun,
  HandlerRan,
  InvocationClosed,
  InvocationHeld,
  InvocationOpened,
  Json,
  RecordedEvent,
  Sealed,
  StoredWarning,
} from '#record';
import { lineageToken } from './cause-token.js';
import { heldGate, type HeldState } from './held.js';
import { invocationState } from './lost.js';

/** The code under which a halt that fails closed cancels (api.md, `…/halt`). */
export const accountHalted = 'account_halted';

/** What one handler did, as an answer shows it. */
export interface HandlerAnswer {
  readonly pluginId: string;
  readonly pluginVersion: string;
  readonly revision: number;
  readonly outcome: HandlerOutcomeWord;
  /** `skipped` and `not_run`: why. */
  readonly cause?: string;
  /** Mode `observe`: the outcome it would have had. */
  readonly wouldHave?: string;
  /** Milliseconds, to the microsecond. */
  readonly durationMs: number;
  readonly warnings: readonly { readonly code: string; readonly detail: string | null }[];
}

export type HandlerOutcomeWord =
  'passed' | 'rewrote' | 'cancelled' | 'observed' | 'claimed' | 'held' | 'contributed' | 'skipped' | 'not_run';

export type OutcomeWord = 'passed' | 'rewritten' | 'cancelled' | 'observed' | 'claimed' | 'held';

/** The answer to a firing (api.md): made once, or rebuilt from the invocation's events with the same content. */
export interface Answer {
  readonly invocationId: string;
  readonly dialect: string;
  readonly hook: string;
  readonly turnId: string;
  readonly turnInferred: boolean;
  readonly outcome: OutcomeWord;
  readonly value: Json;
  readonly cancellation: {
    readonly pluginId: string | null;
    readonly reason: string | null;
    readonly code: string | null;
  } | null;
  readonly hop: number;
  readonly hostSession: 'granted' | 'withheld' | 'absent';
  readonly metered: boolean;
  readonly attempt: number;
  readonly previousInvocationId?: string;
  readonly lineage: string;
  readonly handlers: readonly HandlerAnswer[];
  readonly positions: { readonly first: string; readonly last: string };
  /** A second opening of the same server in the same turn (MW-81). */
  readonly repeated?: true;
  /** `held`, and what was held before: the approval that was asked for last. */
  readonly approvalId?: string;
  /** OpenClaw's `before_tool_call`: whether the call may go on, and with which parameters. */
  readonly gate?: Json;
  /** OpenClaw's `before_agent_run`: what the user of a blocked run is told. */
  readonly notice?: Json;
  /** OpenClaw's `before_agent_finalize`: keys of the retries that were asked for. */
  readonly retries?: Json;
  /** OpenClaw's messages: why this one is not delivered. */
  readonly suppressed?: Json;
  /** Kohaku: what plugins want their host to do, in order; what user interfaces are told; where a block surfaces. */
  readonly effects?: Json;
  readonly activities?: Json;
  readonly surface?: Json;
}

/** A verdict in the word that records and answers use: a contribution is what it is by itself, where it says so. */
export const wordOf = (verdict: Verdict<Json>): HandlerOutcomeWord =>
  verdict.kind === 'contributed' ? (verdict.as ?? verdict.kind) : verdict.kind;

/** One handler of a decision as the answer shows it. */
export const handlerAnswer = <L extends Link & { readonly entry: ChainEntry }>(step: Step<L, Json>): HandlerAnswer => {
  const { entry } = step.link;
  const { verdict } = step;
  return {
    pluginId: entry.pluginId,
    pluginVersion: entry.version,
    revision: entry.revision,
    outcome: wordOf(verdict),
    ...('cause' in verdict ? { cause: verdict.cause } : {}),
    ...(step.wouldHave === null ? {} : { wouldHave: wordOf(step.wouldHave) }),
    durationMs: Math.round(step.durationMs * 1000) / 1000,
    warnings: step.warnings,
  };
};

/** What rebuilding needs from outside: the key of lineage tokens, and how to open content. */
export interface Rebuilding {
  readonly tokenKey: Uint8Array;
  readonly open: (sealed: Sealed) => Promise<Json>;
}

/**
 * Rebuilds an answer from the events of its invocation, oldest first, on any replica. Null while the chain runs; one
 * that waits for an approval is `held`.
 */
export const answerFromEvents = async (
  stored: readonly StoredEvent[],
  { tokenKey, open }: Rebuilding,
): Promise<Answer | null> => {
  const opened = stored.find(({ event }) => event.type === 'invocation.opened');
  const closed = stored.find(({ event }) => event.type === 'invocation.closed');
  const last = closed ?? stored.at(-1);
  if (opened === undefined || last === undefined) return null;
  const end = closed === undefined ? await endOfHeld(stored, open) : await endOfClosed(closed.event, open);
  if (end === null) return null;
  const { event } = opened;
  const data = event.data as unknown as InvocationOpened;
  const invocationId = event.invocationId ?? '';
  const root = event.root ?? invocationId;
  return {
    invocationId,
    dialect: event.dialect ?? '',
    hook: event.hook ?? '',
    turnId: event.turnId ?? '',
    turnInferred: event.turnInferred ?? false,
    outcome: end.outcome,
    value: end.value,
    ...end.more,
    cancellation: end.cancellation,
    hop: event.hop ?? 0,
    hostSession: data.hostSession,
    metered: end.metered > 0,
    attempt: event.attempt ?? 1,
    ...(data.previousInvocationId === undefined ? {} : { previousInvocationId: data.previousInvocationId }),
    lineage: lineageToken(tokenKey, { account: event.account, invocationId, root }),
    handlers: await Promise.all(
      stored
        .map((one) => one.event)
        .filter(isVerdict)
        .map((one) => openHandler(one, open)),
    ),
    positions: { first: String(opened.position), last: String(last.position) },
  };
};

/** What an answer says of how far its chain has come. */
interface AnsweredEnd extends Pick<Answer, 'outcome' | 'value' | 'cancellation'> {
  readonly more: Pick<
    Answer,
    'gate' | 'notice' | 'retries' | 'suppressed' | 'approvalId' | 'effects' | 'activities' | 'surface'
  >;
  readonly metered: number;
}

const endOfClosed = async ({ outcome, data }: RecordedEvent, open: Rebuilding['open']): Promise<AnsweredEnd> => {
  const { value, more, cancellation, metered } = data as unknown as InvocationClosed;
  return {
    outcome: outcome as OutcomeWord,
    value: value === null ? null : await open(value),
    more: more === undefined ? {} : ((await open(more)) as AnsweredEnd['more']),
    cancellation: await openCancellation(cancellation, open),
    metered,
  };
};

/** Null while the chain runs. */
const endOfHeld = async (stored: readonly StoredEvent[], open: Rebuilding['open']): Promise<AnsweredEnd | null> => {
  if (invocationState(stored) !== 'held') return null;
  const held = stored.findLast(({ event }) => event.type === 'invocation.held');
  if (held === undefined) return null;
  const { approvalId, state } = held.event.data as unknown as InvocationHeld;
  const opened = await open(state);
  // Erased while it waited: that it waits is all there is left to say.
  if (!isState(opened)) return { outcome: 'held', value: null, more: { approvalId }, cancellation: null, metered: 0 };
  const { value, call, metered } = opened as unknown as HeldState;
  return { outcome: 'held', value, more: { gate: heldGate(call), approvalId }, cancellation: null, metered };
};

const isState = (opened: Json): boolean => Object.hasOwn((opened ?? {}) as object, 'call');

const isVerdict = ({ type }: RecordedEvent): boolean => type.startsWith('handler.') && type !== 'handler.started';

const openCancellation = async (
  cancellation: InvocationClosed['cancellation'],
  open: Rebuilding['open'],
): Promise<Answer['cancellation']> => {
  if (cancellation === null) return null;
  const reason = cancellation.reason === null ? null : await open(cancellation.reason);
  return { pluginId: cancellation.pluginId, reason: reason as string | null, code: cancellation.code };
};

const openHandler = async (event: RecordedEvent, open: Rebuilding['open']): Promise<HandlerAnswer> => {
  const data = event.data as unknown as HandlerRan & HandlerNotRun;
  const cause = (event.data as { readonly cause?: string }).cause;
  return {
    pluginId: event.pluginId ?? '',
    pluginVersion: event.pluginVersion ?? '',
    revision: event.pluginRevision ?? 0,
    outcome: event.type.slice('handler.'.length) as HandlerOutcomeWord,
    ...(cause === undefined ? {} : { cause }),
    ...(data.wouldHave === undefined ? {} : { wouldHave: data.wouldHave }),
    durationMs: ((data as Partial<HandlerRan>).durationUs ?? 0) / 1000,
    warnings: await Promise.all(data.warnings.map((warning) => openWarning(warning, open))),
  };
};

const openWarning = async (
  { code, detail }: StoredWarning,
  open: Rebuilding['open'],
): Promise<{ readonly code: string; readonly detail: string | null }> => ({
  code,
  detail: detail === null ? null : ((await open(detail)) as string),
});
