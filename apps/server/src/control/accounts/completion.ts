import type { CompletedCommand } from '#event-store';
import type { AccountCommand } from '#platform';

type Note = NonNullable<CompletedCommand['result']['note']>;

/** Ends the command's claim in the same commit as its events; nothing where it has none. */
export const completing = (
  command: AccountCommand<unknown>,
  stream: string,
  status: number,
  note?: Note,
): readonly CompletedCommand[] =>
  command.claim === null
    ? []
    : [
        {
          key: command.claim.key,
          token: command.claim.token,
          result: { stream, status, ...(note === undefined ? {} : { note }) },
        },
      ];
