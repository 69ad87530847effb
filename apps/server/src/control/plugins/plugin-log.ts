import { Inject, Injectable } from '@nestjs/common';
import type { BlobWrite, EventStore, StoredEvent, StreamWrite } from '#event-store';
import { EVENT_STORE, Problem, type AccountCommand } from '#platform';
import { foldPlugin, foldSet, pluginChangeTypes, type PluginHistory, type PluginSet } from '#plugins';
import { pluginOrderStream, pluginStream, type EventType } from '#record';
import { ActivePlugins } from './active-plugins.js';

/** A plugin's stream as it was read: what it says, and the version that a write on it expects. */
export interface PluginStream {
  readonly history: PluginHistory;
  readonly version: number;
}

/** All plugins of an account with the versions of their streams. */
export interface PluginStreams {
  readonly set: PluginSet;
  readonly histories: ReadonlyMap<string, PluginHistory>;
  /** Events that a stream has, by its name; a stream that is not there has none. */
  readonly versions: ReadonlyMap<string, number>;
  /** Last account position that was read; -1 when there was none. */
  readonly position: bigint;
}

/** What a decision writes, and the answer that goes with it once it is written. */
export interface Change<T> {
  readonly writes: readonly StreamWrite[];
  readonly blobs: readonly BlobWrite[];
  /** The stream and facts from which the answer is rebuilt. */
  readonly kept: { readonly stream: string; readonly status: number; readonly note: Note };
  readonly answer: T;
}

interface Note {
  readonly [key: string]: string | number | boolean | null;
}

/** All types of the plugins' streams: what stands beside the changes counts for a stream's version. */
const streamTypes: readonly EventType[] = [
  ...pluginChangeTypes,
  'plugin.tried',
  'plugin.load_failed',
  'plugin.instance_started',
  'plugin.tripped',
];

const page = 500;

/** Most times that a decision is made again because somebody else wrote first. */
const maxAttempts = 20;

/** Reads plugins' streams and writes what was decided on them, each with its version. */
@Injectable()
export class PluginLog {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(ActivePlugins) private readonly active: ActivePlugins,
  ) {}

  async plugin(account: string, id: string): Promise<PluginStream> {
    const events = await this.store.readStream(account, pluginStream(id));
    return { history: foldPlugin(events.map(({ event }) => event)), version: lastVersion(events) };
  }

  /** A stream's events as they stand. */
  events(account: string, stream: string): Promise<readonly StoredEvent[]> {
    return this.store.readStream(account, stream);
  }

  /** An account's events from one position to another, both included; none where `last` is below `first`. */
  async between(account: string, first: bigint, last: bigint): Promise<readonly StoredEvent[]> {
    if (last < first) return [];
    return this.store.readAccount(account, {
      ...(first === 0n ? {} : { after: first - 1n }),
      until: last,
      limit: Number(last - first) + 1,
      order: 'oldest',
    });
  }

  async streams(account: string): Promise<PluginStreams> {
    const events = await this.changes(account, streamTypes);
    const byPlugin = new Map<string, StoredEvent[]>();
    const versions = new Map<string, number>();
    for (const stored of events) {
      const { event } = stored;
      versions.set(event.stream, event.streamVersion);
      if (event.stream === pluginOrderStream || event.pluginId === undefined) continue;
      const own = byPlugin.get(event.pluginId) ?? [];
      byPlugin.set(event.pluginId, own);
      own.push(stored);
    }
    return {
      set: foldSet(events.map(({ event }) => event)),
      histories: new Map([...byPlugin].map(([id, own]) => [id, foldPlugin(own.map(({ event }) => event))])),
      versions,
      position: events.at(-1)?.position ?? -1n,
    };
  }

  /** An account's events of some types, oldest first, up to a position. */
  async changes(account: string, types: readonly EventType[], until?: bigint): Promise<readonly StoredEvent[]> {
    const all: StoredEvent[] = [];
    for (;;) {
      const after = all.at(-1)?.position;
      const events = await this.store.readAccount(account, {
        ...(after === undefined ? {} : { after }),
        ...(until === undefined ? {} : { until }),
        limit: page,
        types,
        order: 'oldest',
      });
      all.push(...events);
      if (events.length < page) return all;
    }
  }

  /**
   * Decides and writes; decides again on what is there now whenever a stream had moved. So a decision that checks
   * `If-Match` sees the new revision the second time and refuses with 412, and one that does not carries on: no update
   * is lost either way (MW-9, field report 11).
   */
  async commit<T>(command: AccountCommand<T>, decideOn: () => Promise<Change<T>>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      const change = await decideOn();
      const done = await this.write(command, change);
      if (done) return change.answer;
      if (attempt === maxAttempts) throw contended();
    }
  }

  /** False when a stream had another version than the decision was made on. */
  private async write<T>({ meta, claim }: AccountCommand<T>, { writes, blobs, kept }: Change<T>): Promise<boolean> {
    if (writes.length === 0 && claim === null) return true;
    const commands = claim === null ? [] : [{ key: claim.key, token: claim.token, result: kept }];
    const result = await this.store.append({ account: meta.account, writes, blobs, commands });
    if (result.kind === 'conflict') return false;
    if (result.kind === 'claim-lost') throw claimLost();
    // The log has it; a view that could not be brought up to date now follows within its next look.
    await this.active.refresh(meta.account).catch(() => undefined);
    return true;
  }
}

const lastVersion = (events: readonly StoredEvent[]): number => events.at(-1)?.event.streamVersion ?? 0;

const contended = (): Problem => new Problem(409, 'contended', 'Others kept changing it at the same time. Try again.');

const claimLost = (): Problem =>
  new Problem(
    409,
    'superseded',
    'Another attempt with this Idempotency-Key took over. Repeat the request for its answer.',
  );
