import { Inject, Injectable } from '@nestjs/common';
import type { EventStore, StreamWrite } from '#event-store';
import { decideCleanup, decideDrop } from '#lifecycles';
import { EVENT_STORE } from '#platform';
import { extensionStream, injectionStream, type CleanupCause, type EventFields, type JsonObject } from '#record';
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
    const { account, sessions, cause, pluginId, causedBy, fields } = end;
    const calls = pluginId === null ? withCleanup((await this.plugins.get(account)).set) : [];
    const writes = await Promise.all(
      sessions.map(async (session, index): Promise<readonly StreamWrite[]> => {
        const queue = await this.injections.queue(account, session);
        const kept = await this.extensions.kept(account, session);
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
            events: decideDrop(queue.state, cause, pluginId).map((event) => ({ ...own, ...event })),
          },
          {
            stream: extensionStream(session),
            expectedVersion: kept.version,
            events: decideCleanup(kept.state, cleanup).map((event) => ({ ...own, ...event })),
          },
        ];
      }),
    );
    return writes.flat().filter(({ events }) => events.length > 0);
  }

  /** Whether any of these streams is not where it was decided on. */
  async moved(account: string, writes: readonly StreamWrite[]): Promise<boolean> {
    const versions = await Promise.all(writes.map(({ stream }) => this.store.streamVersion(account, stream)));
    return writes.some(({ expectedVersion }, index) => expectedVersion !== versions[index]);
  }
}
