import type { Append, AppendResult, CommandResult, CompletedCommand, EventStore } from '#event-store';
import { Problem, type AccountCommand } from '#platform';
import type { Scope } from '#sealing';

/** Small facts from which an answer is rebuilt. */
export type Note = NonNullable<CommandResult['note']>;

/** Ends the idempotency claim of a command in the commit of its events; nothing where it has none. */
export const completion = (
  { claim }: Pick<AccountCommand<unknown>, 'claim'>,
  stream: string,
  note: Note,
): readonly CompletedCommand[] =>
  claim === null ? [] : [{ key: claim.key, token: claim.token, result: { stream, status: 200, note } }];

/** What a completed command noted. */
export const noteOf = ({ note }: CommandResult): Note => note ?? {};

/** Most attempts of a command whose streams move under it, before it is left to the caller. */
const mostTries = 50;

/** Tries until a step gives an answer: null means that a stream had moved and everything is to be looked at anew. */
export const untilDecided = async <T>(step: () => Promise<T | null>): Promise<T> => {
  for (let tries = 0; tries < mostTries; tries += 1) {
    const answer = await step();
    if (answer !== null) return answer;
  }
  throw contended();
};

/** Appends where there is anything to append; false when a stream had moved. */
export const appendUnlessMoved = async (store: EventStore, append: Append): Promise<AppendResult | null> => {
  const result = await store.append(append);
  if (result.kind === 'claim-lost') throw superseded();
  return result.kind === 'conflict' ? null : result;
};

/** Ends the claim of a command that had nothing to write. */
export const completeOnly = async (
  store: EventStore,
  command: AccountCommand<unknown>,
  stream: string,
  note: Note,
): Promise<void> => {
  const commands = completion(command, stream, note);
  if (commands.length === 0) return;
  await appendUnlessMoved(store, { account: command.meta.account, writes: [], commands });
};

/** The scope of what a step seals: its data subject, else its session, else the account. */
export const stepScope = (dataSubject: string | null | undefined, sessionId: string | null): Scope => {
  if (dataSubject !== undefined && dataSubject !== null) return { kind: 'subject', id: dataSubject };
  return sessionId === null ? { kind: 'account' } : { kind: 'session', id: sessionId };
};

const contended = (): Problem =>
  new Problem(503, 'contended', 'Others change the same thing without a pause. Try again.', [], { 'retry-after': '1' });

/** Another attempt with the same key took over. */
export const superseded = (): Problem =>
  new Problem(503, 'superseded', 'Another attempt took over. Ask again for its answer.', [], { 'retry-after': '1' });
