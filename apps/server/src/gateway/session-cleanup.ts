import { Inject, Injectable } from '@nestjs/common';
import type { EventStore, StreamWrite } from '#event-store';
import { decideCleanup, decideDrop, type SessionExtensions as Kept } from '#lifecycles';
import { EVENT_STORE } from '#platform';
import {
  extensionStream,
  injectionStream,
  type CleanupCause,
  type EventFields,
  type ExtensionPatched,
  type JsonObject,
  type Sealed,
} from '#record';
import { ActivePlugins } from '../control/plugins/active-plugins.js';
import { SessionExtensions, withCleanup } from './session-extensions.js';
import { SessionInjections } from './session-injections.js';

/** What goes of a session, and why. */
export interface SessionEnd {
  readonly account: string;
  /** Names under which the session is known. */
  readonly sessions: readonly string[];
  readonly cause: Exclude<CleanupCause, 'restart'>;
  /** Null: with the session, of every plugin. */
  readonly pluginId: string | null;
  /** Only what was there at this account position; absent: all of it. */
  readonly until?: bigint;
  readonly causedBy?: string;
  readonly fields: EventFields;
}

/**
 * How OpenClaw's reasons for the end of a session clean it up (openclaw.md §15, §19): a session that only goes on
 * elsewhere, or with the process, keeps what it has.
 */
const endings: { readonly [reason: string]: SessionEnd['cause'] } = {
  new: 'reset',
  reset: 'reset',
  idle: 'reset',
  daily: 'reset',
  deleted: 'delete',
};

/** OpenClaw's hook for the end of a session. */
export const endOfSessionHook = 'session_end';

/** What the end of a session cleans up; null: nothing. */
export const cleanupCauseOf = (input: JsonObject): SessionEnd['cause'] | null => {
  const { reason } = input.event as JsonObject;
  return typeof reason === 'string' && Object.hasOwn(endings, reason) ? (endings[reason] ?? null) : null;
};

/** Takes out of sessions what plugins left there, in the commit of what ends them. */
@Injectable()
export class SessionCleanup {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    private readonly plugins: ActivePlugins,
    private readonly injections: SessionInjections,
    private readonly extensions: SessionExtensions,
  ) {}

  /** What is to be written; decided anew when one of its streams has moved. */
  async writes(end: SessionEnd): Promise<readonly StreamWrite[]> {
    const { account, sessions, cause, pluginId, until, causedBy, fields } = end;
    const calls = pluginId === null ? withCleanup((await this.plugins.get(account)).set) : [];
    const writes = await Promise.all(
      sessions.map(async (session, index): Promise<readonly StreamWrite[]> => {
        const queue = await this.injections.queue(account, session);
        const kept = await this.extensions.kept(account, session);
        const wasThere = until === undefined ? null : await this.thereAt(account, session, until);
        const waiting = queue.state.entries.filter(({ injectionId }) => wasThere?.injections.has(injectionId) ?? true);
        const values = wasThere === null ? kept.state : only(kept.state, wasThere.values);
        const own = { ...fields, sessionId: session };
        // Callbacks are called once, whatever names the session has.
        const cleanup = {
          cause,
          pluginId,
          calls: index === 0 ? calls : [],
          ...(causedBy === undefined ? {} : { causedBy }),
        };
        return [
          {
            stream: injectionStream(session),
            expectedVersion: queue.version,
            events: decideDrop({ ...queue.state, entries: waiting }, cause, pluginId).map((event) => ({
              ...own,
              ...event,
            })),
          },
          {
            stream: extensionStream(session),
            expectedVersion: kept.version,
            events: decideCleanup(values, cleanup).map((event) => ({ ...own, ...event })),
          },
        ];
      }),
    );
    return writes.flat().filter(({ events }) => events.length > 0);
  }

  /** What came into a session up to a position: a plugin that is back by now keeps what it left since. */
  private async thereAt(account: string, session: string, until: bigint): Promise<ThereAt> {
    const enqueued = await this.store.readStream(account, injectionStream(session));
    const patched = await this.store.readStream(account, extensionStream(session));
    const values = new Set<string>();
    for (const { event, position } of patched) {
      if (event.type !== 'extension.patched') continue;
      const { pluginId, namespace } = event.data as unknown as ExtensionPatched;
      if (position <= until) values.add(placeOf(pluginId, namespace));
      else values.delete(placeOf(pluginId, namespace));
    }
    const old = enqueued.filter(({ event, position }) => event.type === 'injection.enqueued' && position <= until);
    return { injections: new Set(old.map(({ event }) => event.data.injectionId)), values };
  }

  /** Whether any of these streams is not where it was decided on. */
  async moved(account: string, writes: readonly StreamWrite[]): Promise<boolean> {
    const versions = await Promise.all(writes.map(({ stream }) => this.store.streamVersion(account, stream)));
    return writes.some(({ expectedVersion }, index) => expectedVersion !== versions[index]);
  }
}

interface ThereAt {
  readonly injections: ReadonlySet<unknown>;
  /** Places of values that were not changed since. */
  readonly values: ReadonlySet<string>;
}

const placeOf = (pluginId: string, namespace: string): string => JSON.stringify([pluginId, namespace]);

const only = (state: Kept, places: ReadonlySet<string>): Kept =>
  new Map(
    [...state].flatMap(([pluginId, own]): [string, ReadonlyMap<string, Sealed>][] => {
      const left = [...own].filter(([namespace]) => places.has(placeOf(pluginId, namespace)));
      return left.length === 0 ? [] : [[pluginId, new Map(left)]];
    }),
  );
