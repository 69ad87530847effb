import { Inject, Injectable } from '@nestjs/common';
import type { Append, AppendResult, CompletedCommand, EventStore, StoredEvent } from '#event-store';
import { foldKeeping, keepingStream, keepingTypes, type Keeping } from '#keeping';
import { EVENT_STORE, Problem } from '#platform';
import type { NewEvent } from '#record';
import { claimLost } from '../accounts/change-account.js';

/** What an account keeps, and the version of the stream that this was decided on. */
export interface KeepingAt extends Keeping {
  readonly version: number;
}

/** What a command on it writes: events on the account's stream `keeping`, and what goes with them. */
export interface KeepingChange {
  readonly events: readonly NewEvent[];
  readonly blobs?: Append['blobs'];
  readonly commands: readonly CompletedCommand[];
}

type Appended = Extract<AppendResult, { kind: 'appended' }>;

const pageEvents = 500;
const maxTries = 10;

/**
 * Holds, retention, purges and intents to erase of an account stand in one stream, so that no two of them are decided
 * past each other: a hold that is placed while a purge is being decided makes it decide anew.
 */
@Injectable()
export class KeepingLog {
  constructor(@Inject(EVENT_STORE) private readonly store: EventStore) {}

  /** As it is now. */
  async read(account: string): Promise<KeepingAt> {
    // The version first: what is written after it makes whoever decides on it decide again.
    const version = await this.store.streamVersion(account, keepingStream);
    const events: StoredEvent[] = [];
    for (;;) {
      const last = events.at(-1);
      const page = await this.store.readAccount(account, {
        stream: keepingStream,
        types: keepingTypes,
        limit: pageEvents,
        ...(last === undefined ? {} : { after: last.position }),
      });
      events.push(...page);
      if (page.length < pageEvents) return { ...foldKeeping(events), version };
    }
  }

  /** Decides on it as it is, and again when somebody was faster. `decide` throws a `Problem` to refuse. */
  async change(
    account: string,
    decide: (keeping: KeepingAt) => KeepingChange | Promise<KeepingChange>,
  ): Promise<Appended> {
    for (let tries = 1; ; tries += 1) {
      const keeping = await this.read(account);
      const { events, blobs, commands } = await decide(keeping);
      if (events.length === 0 && commands.length === 0) return { kind: 'appended', first: 0n, last: -1n, events: [] };
      const result = await this.store.append({
        account,
        writes: events.length === 0 ? [] : [{ stream: keepingStream, expectedVersion: keeping.version, events }],
        ...(blobs === undefined ? {} : { blobs }),
        commands,
      });
      if (result.kind === 'appended') return result;
      if (result.kind === 'claim-lost') throw claimLost();
      if (tries === maxTries)
        throw new Problem(
          409,
          'changed_meanwhile',
          'Others change what this account keeps at the same time. Try again.',
        );
    }
  }

  /** Every event of a type on the account's log, oldest first. */
  async all(
    account: string,
    range: Pick<Parameters<EventStore['readAccount']>[1], 'types' | 'stream'>,
  ): Promise<readonly StoredEvent[]> {
    const events: StoredEvent[] = [];
    for (;;) {
      const last = events.at(-1);
      const page = await this.store.readAccount(account, {
        ...range,
        limit: pageEvents,
        ...(last === undefined ? {} : { after: last.position }),
      });
      events.push(...page);
      if (page.length < pageEvents) return events;
    }
  }
}
