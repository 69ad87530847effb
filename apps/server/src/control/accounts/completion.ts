import type { CompletedCommand } from '#event-store';
import type { AccountCommand } from '#platform';

/** Ends the command's claim in the same commit as its events; nothing where it has none. */
export const completing = (
  command: AccountCommand<unknown>,
  stream: string,
  status: number,
): readonly CompletedCommand[] =>
  command.claim === null ? [] : [{ key: command.claim.key, token: command.claim.token, result: { stream, status } }];
