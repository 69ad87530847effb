import { Inject, Injectable, type BeforeApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { extensionsOf, lifecyclesOf } from '#dialects';
import { startFollower, type EventStore, type Follower, type Sql, type StoredEvent } from '#event-store';
import { callCleanup } from '#firing';
import { errorFacts, EVENT_STORE, LOGGER, SANDBOX, SEALING, SQL, type Logger } from '#platform';
import {
  asData,
  pluginCleanupStream,
  type CleanupCall,
  type CleanupCause,
  type EventType,
  type ExtensionCleaned,
  type ExtensionCleanupCalled,
  type PluginChanged,
  type PluginSnapshot,
} from '#record';
import type { Sandbox } from '#sandbox';
import type { Envelope, Sealing } from '#sealing';
import { ActivePlugins, type ActiveSet } from '../control/plugins/active-plugins.js';
import { appendUnlessMoved, stepScope, untilDecided } from './lifecycle-commits.js';
import { Looks } from './looks.js';
import { newId } from './new-id.js';
import { SessionCleanup } from './session-cleanup.js';
import { hasCleanup } from './session-extensions.js';

/** How often work is looked for, ms; new work is looked for at once. */
const lookMs = 500;

/** How long one process may be silent over a piece of work before another one takes it, s. */
const leaseSeconds = 60;

/** Pieces of work beside one another. */
const beside = 8;

/** Events that one look at what plugins left in sessions takes in. */
const page = 1_000;

/** Why a change of a plugin cleans up after it; a change that is not here does not. */
const changes: { readonly [type in EventType]?: CleanupCause } = {
  'plugin.disabled': 'disable',
  'plugin.uninstalled': 'disable',
  'plugin.versioned': 'restart',
  'plugin.rolled_back': 'restart',
  'plugin.configured': 'restart',
};

const actor = { kind: 'system', id: 'session-cleanup' } as const;

interface Due {
  readonly account: string;
  readonly position: string;
}

/**
 * Cleans up after plugins that were taken out of force, and calls the cleanups that are ordered (openclaw.md §15). What is
 * to be done follows the log and lies in a table; a process that dies leaves it to the others.
 */
@Injectable()
export class CleanupWatch implements OnModuleInit, BeforeApplicationShutdown {
  private follower: Follower | null = null;
  private looks: Looks | null = null;

  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SQL) private readonly sql: Sql,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(SANDBOX) private readonly sandbox: Sandbox,
    @Inject(LOGGER) private readonly logger: Logger,
    private readonly plugins: ActivePlugins,
    private readonly cleanup: SessionCleanup,
  ) {}

  onModuleInit(): void {
    const looks = new Looks({
      look: () => this.look(),
      everyMs: lookMs,
      failed: (error) => this.logger.warn(errorFacts(error), 'sessions cannot be cleaned up; tried again'),
    });
    this.looks = looks;
    this.follower = startFollower({
      store: this.store,
      sql: this.sql,
      name: 'session-cleanup',
      types: [...(Object.keys(changes) as readonly EventType[]), 'extension.cleaned'],
      handle: async (events, sql) => {
        const due = events.filter(isDue);
        for (const { event, position } of due) {
          await sql.query('insert into cleanup_due (account, position) values ($1, $2) on conflict do nothing', [
            event.account,
            String(position),
          ]);
        }
        if (due.length > 0) looks.soon();
      },
      log: (level, message, facts = {}) => this.logger[level](facts, message),
    });
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.looks?.stop();
    await this.follower?.stop();
  }

  private async look(): Promise<void> {
    while (this.looks?.isStopped === false) {
      const rows = await this.sql.query<Due>(
        `update cleanup_due w set lease_until = now() + make_interval(secs => $1) from (
           select account, position from cleanup_due where lease_until <= now()
             order by lease_until, position limit $2 for update skip locked) due
         where w.account = due.account and w.position = due.position returning w.account, w.position`,
        [leaseSeconds, beside],
      );
      if (rows.length === 0) break;
      await Promise.all(rows.map((row) => this.perform(row)));
    }
  }

  /** What fails is tried again when its lease is over. */
  private async perform(due: Due): Promise<void> {
    const { account, position } = due;
    const at = BigInt(position);
    try {
      const [stored] = await this.store.readAccount(account, {
        ...(at === 0n ? {} : { after: at - 1n }),
        until: at,
        limit: 1,
      });
      if (stored !== undefined) {
        if (stored.event.type === 'extension.cleaned') await this.callAll(stored, due);
        else await this.pluginChanged(stored, due);
      }
      await this.sql.query('delete from cleanup_due where account = $1 and position = $2', [account, position]);
    } catch (error) {
      this.logger.warn({ account, position, ...errorFacts(error) }, 'a cleanup could not be done; tried again');
    }
  }

  /** Takes out what the plugin left in sessions, and orders its own cleanup. */
  private async pluginChanged({ event, position }: StoredEvent, due: Due): Promise<void> {
    const { account, id } = event;
    const cause = changes[event.type];
    const { before } = event.data as unknown as PluginChanged;
    if (cause === undefined || before === null) return;
    if (cause !== 'restart') {
      for (const session of await this.sessionsOf(account, before.id, position)) {
        await this.renew(due);
        await untilDecided(async () => {
          const fields = { actor, pluginId: before.id };
          const end = {
            account,
            sessions: [session],
            cause,
            pluginId: before.id,
            until: position,
            causedBy: id,
            fields,
          };
          const writes = await this.cleanup.writes(end);
          return writes.length === 0 ? true : await appendUnlessMoved(this.store, { account, writes });
        });
      }
    }
    if (before.enabled && hasCleanup(before)) await this.order(account, before, cause, position, id);
  }

  /** Ordered once for each change, whoever comes to it. */
  private async order(
    account: string,
    plugin: PluginSnapshot,
    cause: CleanupCause,
    position: bigint,
    causedBy: string,
  ): Promise<void> {
    const stream = pluginCleanupStream(plugin.id);
    const data: ExtensionCleaned = {
      cause,
      removed: [],
      calls: [plugin.id],
      asOf: String(position - 1n),
      causedBy,
    };
    await untilDecided(async () => {
      const events = await this.store.readStream(account, stream);
      if (events.some(({ event }) => (event.data as unknown as ExtensionCleaned).causedBy === causedBy)) return true;
      const expectedVersion = await this.store.streamVersion(account, stream);
      const ordered = { type: 'extension.cleaned', actor, pluginId: plugin.id, data: asData(data) } as const;
      return appendUnlessMoved(this.store, { account, writes: [{ stream, expectedVersion, events: [ordered] }] });
    });
  }

  /** Sessions in which a plugin may have left something. */
  private async sessionsOf(account: string, pluginId: string, until: bigint): Promise<readonly string[]> {
    const sessions = new Set<string>();
    for (let after: bigint | null = null; ;) {
      const events = await this.store.readAccount(account, {
        types: ['injection.enqueued', 'extension.patched'],
        ...(after === null ? {} : { after }),
        until,
        limit: page,
      });
      for (const { event } of events) {
        if (event.pluginId === pluginId && event.sessionId !== undefined) sessions.add(event.sessionId);
      }
      after = events.at(-1)?.position ?? null;
      if (events.length < page || after === null) return [...sessions];
    }
  }

  /** Calls what was ordered, session extensions first, one after another; failures are collected, not thrown. */
  private async callAll({ event, position }: StoredEvent, due: Due): Promise<void> {
    const { account, stream, sessionId } = event;
    const { cause, calls: ids, asOf } = event.data as unknown as ExtensionCleaned;
    if (await this.isCalled(account, stream, event.streamVersion, event.id)) return;
    const active = await this.plugins.at(account, asOf === undefined ? position : BigInt(asOf));
    const envelope = await this.sealing.envelope(account, stepScope(null, sessionId ?? null));
    const calls: CleanupCall[] = [];
    for (const { plugin, ...called } of callbacks(active, ids)) {
      await this.renew(due);
      const context = { reason: cause, ...(sessionId === undefined ? {} : { sessionKey: sessionId }) };
      calls.push(await this.call(active, plugin, called, context, envelope));
    }
    const data: ExtensionCleanupCalled = { cause, order: event.id, calls };
    const called = {
      type: 'extension.cleanup_called',
      actor,
      ...(sessionId === undefined ? {} : { sessionId }),
      data: asData(data),
    } as const;
    await untilDecided(async () => {
      const expectedVersion = await this.store.streamVersion(account, stream);
      if (await this.isCalled(account, stream, event.streamVersion, event.id)) return true;
      const writes = [{ stream, expectedVersion, events: [called] }];
      return appendUnlessMoved(this.store, { account, writes, blobs: envelope.blobs() });
    });
  }

  private async isCalled(account: string, stream: string, version: number, order: string): Promise<boolean> {
    const events = await this.store.readStream(account, stream, version + 1);
    return events.some(
      ({ event: { type, data } }) =>
        type === 'extension.cleanup_called' && (data as { order?: unknown }).order === order,
    );
  }

  private async call(
    active: ActiveSet,
    plugin: PluginSnapshot,
    { kind, name, handler }: Omit<Callback, 'plugin'>,
    context: object,
    envelope: Envelope,
  ): Promise<CleanupCall> {
    const realm = await active.realmFor(plugin);
    const said = { pluginId: plugin.id, kind, name };
    if (realm.kind !== 'ready') return { ...said, outcome: 'not_loaded', error: null, durationMs: 0 };
    const { account } = realm.realm;
    const { error, ...ended } = await callCleanup(this.sandbox, {
      account,
      realm: realm.realm,
      id: newId(),
      handler,
      context,
    });
    return { ...said, ...ended, error: error === null ? null : envelope.seal(error) };
  }

  private async renew({ account, position }: Due): Promise<void> {
    await this.sql.query(
      'update cleanup_due set lease_until = now() + make_interval(secs => $3) where account = $1 and position = $2',
      [account, position, leaseSeconds],
    );
  }
}

/** A callback of a plugin that is to be called. */
interface Callback {
  readonly plugin: PluginSnapshot;
  readonly kind: CleanupCall['kind'];
  readonly name: string;
  readonly handler: string;
}

const callbacks = ({ set }: ActiveSet, ids: readonly string[]): readonly Callback[] => {
  const plugins = ids.flatMap((id) => set.plugins.get(id) ?? []);
  const claims = plugins.map(({ id, findings }) => ({ id, registrations: findings.registrations }));
  const of = (kind: Callback['kind'], pluginId: string, name: string, handler: string | null): readonly Callback[] => {
    const plugin = set.plugins.get(pluginId);
    return plugin === undefined || handler === null ? [] : [{ plugin, kind, name, handler }];
  };
  return [
    ...extensionsOf(claims).flatMap((one) =>
      one.cleans ? of('extension', one.pluginId, one.namespace, one.handler) : [],
    ),
    ...lifecyclesOf(claims).flatMap((one) => of('lifecycle', one.pluginId, one.id, one.handler)),
  ];
};

/** An order without calls, and a change of another dialect's plugin, leave nothing to do. */
const isDue = ({ event: { type, data } }: StoredEvent): boolean => {
  if (type === 'extension.cleaned') return (data as unknown as ExtensionCleaned).calls.length > 0;
  return (data as unknown as PluginChanged).before?.dialect === 'openclaw';
};
