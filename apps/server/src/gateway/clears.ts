import { Inject, Injectable } from '@nestjs/common';
import type { EventStore, StoredEvent, StreamWrite } from '#event-store';
import { FiringSuperseded } from '#firing';
import { clearStream, evolveClear, unknownClear, type SessionClear } from '#lifecycles';
import { actorOf, EVENT_STORE, Problem, type AccountCommand } from '#platform';
import { digestOf, type NewEvent } from '#record';
import type { Envelope } from '#sealing';
import type { FiringOrder } from './firing-order.js';
import { onceUnderClaim } from './held-claim.js';
import { HookFiring } from './hook-firing.js';
import { completeOnly, completion, noteOf, superseded, untilDecided, type Note } from './lifecycle-commits.js';
import { newId } from './new-id.js';
import { SessionCleanup } from './session-cleanup.js';

/** A clear as its stream has it. */
export interface FoundClear {
  readonly stream: string;
  readonly version: number;
  readonly clear: SessionClear;
  /** `session.cleared`, where it stands. */
  readonly clearedBy: StoredEvent | null;
}

/** One of a clear's two hooks, with the events that stand before it. */
interface ClearStep {
  readonly phase: 'started' | 'completed';
  readonly sessionId: string;
  readonly clearId: string;
  /** What to do with the clear as it is now; may throw a `Problem`. */
  readonly decide: (found: FoundClear) => ClearDecision;
}

export type ClearDecision =
  | { readonly kind: 'nothing'; readonly note: Note }
  | {
      readonly kind: 'fire';
      readonly order: FiringOrder;
      /** Written in one commit with the opening of the invocation, before it; none where they were written before. */
      readonly events: (envelope: Envelope) => readonly NewEvent[];
      readonly note: Note;
      /** The session is cleared with these events: what plugins left in it goes. */
      readonly cleans?: boolean;
    };

/** The clears of sessions: their streams, and the hooks around them. */
@Injectable()
export class Clears {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    private readonly firing: HookFiring,
    private readonly cleanup: SessionCleanup,
  ) {}

  async find(account: string, sessionId: string, clearId: string): Promise<FoundClear> {
    const stream = clearStream(sessionId, clearId);
    const events = await this.events(account, stream);
    return {
      stream,
      version: events.at(-1)?.event.streamVersion ?? 0,
      clear: events.map(({ event }) => event).reduce(evolveClear, unknownClear),
      clearedBy: events.find(({ event }) => event.type === 'session.cleared') ?? null,
    };
  }

  private async events(account: string, stream: string): Promise<readonly StoredEvent[]> {
    const events = await this.store.readStream(account, stream);
    if (events.length > 0 || (await this.store.streamVersion(account, stream)) === 0) return events;
    // There was something: it came just now, or it is gone.
    const later = await this.store.readStream(account, stream);
    if (later.length > 0) return later;
    throw new Problem(410, 'purged', 'This clear is past its retention and was removed.');
  }

  /**
   * Fires a hook of a clear, and not again once it is on record that it ran: what comes at once waits for the first, and
   * after a crash it runs again (MW-91). The opening is durable before the chain runs, so each attempt is seen. What
   * comes out is what the first attempt that ended noted, with its invocation.
   */
  async hookOnce(
    command: AccountCommand<unknown> & { readonly invocationId: string },
    step: ClearStep,
  ): Promise<{ readonly noted: Note }> {
    const { account } = command.meta;
    const key = `clear ${step.phase} ${digestOf(JSON.stringify([step.sessionId, step.clearId]))}`;
    const wanted = { account, key, invocationId: command.invocationId };
    const ended = await onceUnderClaim(this.store, wanted, (claim) => {
      const ids = [command.invocationId];
      return untilDecided(() => this.attempt(command, step, { ...claim, key, invocationId: ids.pop() ?? newId() }));
    });
    if (ended.kind === 'ran') return { noted: ended.answer };
    const found = await this.find(account, step.sessionId, step.clearId);
    const decision = step.decide(found);
    const noted = { ...noteOf(ended.result), ...decision.note };
    await completeOnly(this.store, command, found.stream, noted);
    return { noted };
  }

  /** Null when the clear moved under it: nothing ran. */
  private async attempt(
    command: AccountCommand<unknown>,
    step: ClearStep,
    claim: {
      readonly key: string;
      readonly token: string;
      readonly attempt: number;
      readonly previousInvocationId: string | null;
      readonly invocationId: string;
    },
  ): Promise<Note | null> {
    const { meta } = command;
    const { account } = meta;
    const found = await this.find(account, step.sessionId, step.clearId);
    const decision = step.decide(found);
    if (decision.kind === 'nothing') {
      await completeOnly(this.store, command, found.stream, decision.note);
      return decision.note;
    }
    const { invocationId, attempt, previousInvocationId, key, token } = claim;
    const { stream, version: expectedVersion } = found;
    const note = { ...decision.note, invocationId };
    const completed = [{ key, token, result: { stream, status: 200, note } }, ...completion(command, stream, note)];
    const request = {
      account,
      actor: actorOf(meta.caller),
      order: decision.order,
      invocationId,
      attempt,
      previousInvocationId,
    };
    const beside = decision.cleans === true ? await this.cleaning(command, step.sessionId) : [];
    try {
      const running = await this.firing.start(request, completed, (envelope) => ({
        stream,
        before: [{ stream, expectedVersion, events: decision.events(envelope) }, ...beside],
      }));
      await running.answer;
      return note;
    } catch (error) {
      if (!(error instanceof FiringSuperseded)) throw error;
      const now = await this.find(account, step.sessionId, step.clearId);
      if (now.version === expectedVersion && !(await this.cleanup.moved(account, beside))) throw superseded();
      return null;
    }
  }

  private cleaning({ meta }: AccountCommand<unknown>, sessionId: string): Promise<readonly StreamWrite[]> {
    const { account, caller } = meta;
    const fields = { actor: actorOf(caller) };
    return this.cleanup.writes({ account, sessions: [sessionId], cause: 'reset', pluginId: null, fields });
  }
}
