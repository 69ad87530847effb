import { Command } from '@nestjs/cqrs';
import type { CommandResult } from '#event-store';
import type { Caller, Role } from './caller.js';

/** What every command of an account carries beside its own words. */
export interface CommandMeta {
  readonly account: string;
  readonly caller: Caller;
  /** From `Idempotency-Key`; null when the caller sent none. */
  readonly idempotency: { readonly key: string; readonly requestDigest: string } | null;
}

/** The claim under which a command runs, to be handed to `EventStore.append` among `commands`. */
export interface ActiveClaim {
  readonly key: string;
  readonly token: string;
  readonly attempt: number;
  readonly previousInvocationId: string | null;
}

/** Where a command that was already done left its events. */
export interface DoneCommand {
  readonly result: CommandResult;
  readonly first: bigint;
  readonly last: bigint;
}

/**
 * A command of one account. The platform's bus checks the role, claims the idempotency key before anything runs, and
 * sets `claim` or `done`; the route reads `done` to say `Idempotency-Replayed: true`.
 */
export abstract class AccountCommand<R> extends Command<R> {
  abstract readonly allows: readonly Role[];
  /** Noted with the claim, so that a later attempt can name what was lost. */
  readonly invocationId: string | null = null;
  claim: ActiveClaim | null = null;
  done: DoneCommand | null = null;

  constructor(readonly meta: CommandMeta) {
    super();
  }
}

/** Runs a command once; answers a repeated one from the events of the first. */
export abstract class AccountCommandHandler<C extends AccountCommand<R>, R> {
  execute(command: C): Promise<R> {
    return command.done === null ? this.run(command) : this.replay(command, command.done);
  }

  /** Does it. Hand `command.claim` to the append, so that the events and the claim's end are one commit. */
  protected abstract run(command: C): Promise<R>;

  /** Rebuilds the first answer from its events, on any replica. */
  protected abstract replay(command: C, done: DoneCommand): Promise<R>;
}
