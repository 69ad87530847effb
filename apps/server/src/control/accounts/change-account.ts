import type { Append, AppendResult, EventStore } from '#event-store';
import { Problem } from '#platform';
import type { AccountDirectory } from './account-directory.js';
import type { AccountFacts } from './directory-state.js';

/** How often a change is decided anew when somebody else changed the account meanwhile. */
const maxTries = 5;

type Appended = Extract<AppendResult, { kind: 'appended' }>;

const nothingWritten: Appended = { kind: 'appended', first: 0n, last: -1n, events: [] };

/**
 * Decides on the account as it is, appends, and takes the result into force here before it returns. When somebody else
 * was faster, it decides again on what is there now, so no update is lost and no refusal is stale. `decide` throws a
 * `Problem` to refuse, and returns an append without writes where there is nothing to change.
 */
export const changeAccount = async (
  store: EventStore,
  directory: AccountDirectory,
  id: string,
  decide: (account: AccountFacts) => Append | Promise<Append>,
): Promise<Appended> => {
  for (let tries = 1; ; tries += 1) {
    await directory.catchUp();
    const account = directory.account(id);
    if (account === null) throw new Problem(404, 'unknown_account', 'There is no such account.');
    const append = await decide(account);
    if (append.writes.length === 0 && (append.commands ?? []).length === 0) return nothingWritten;
    const result = await store.append(append);
    if (result.kind === 'appended') {
      await directory.catchUp();
      return result;
    }
    if (result.kind === 'claim-lost') throw claimLost();
    if (tries === maxTries)
      throw new Problem(409, 'changed_meanwhile', 'Others change this account at the same time. Try again.');
  }
};

/** The command's lease ran out and somebody else took it over: their answer counts. */
export const claimLost = (): Problem =>
  new Problem(503, 'superseded', 'Another attempt of this request took over. Send it again for its answer.', [], {
    'retry-after': '1',
  });
