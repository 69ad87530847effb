import { randomUUID } from 'node:crypto';
import type { EventType } from '#record';
import { readEvent } from '#record';
import type { ClaimTry } from './claiming.js';
import { claimEndings, claimPatiently } from './claiming.js';
import type { StreamDraft } from './drafts.js';
import { draftStreams, writeEvents } from './drafts.js';
import type {
  Append,
  AppendResult,
  ClaimRequest,
  CommandResult,
  CompletedCommand,
  EventStore,
  ReadRange,
  StoredEvent,
} from './event-store.js';
import { LogUnavailable } from './event-store.js';
import { listeners } from './listeners.js';

/** Options of the memory store. */
export interface MemoryStoreOptions {
  readonly now?: () => Date;
  /** How long `claim` waits for another holder, ms. Default 30,000. */
  readonly claimWaitMs?: number;
}

interface CommandRow {
  readonly requestDigest: string;
  readonly token: string;
  readonly attempt: number;
  readonly invocationId: string | null;
  leaseUntil: number;
  done: { readonly result: CommandResult; readonly first: bigint; readonly last: bigint } | null;
}

/** A log in memory under the same contract as the Postgres one: for tests and for trying things out. */
export const memoryEventStore = (options: MemoryStoreOptions = {}): EventStore => {
  const now = options.now ?? (() => new Date());
  const log: StoredEvent[] = [];
  const accounts = new Map<string, StoredEvent[]>();
  const streams = new Map<string, StoredEvent[]>();
  const blobs = new Map<string, Uint8Array>();
  const commands = new Map<string, CommandRow>();
  const endings = claimEndings();
  const appended = listeners();
  let open = true;

  const streamOf = (account: string, stream: string): StoredEvent[] => entry(streams, `${account}\0${stream}`);
  const commandAt = (account: string, key: string): string => `${account}\0${key}`;

  const holds = (account: string, { key, token }: CompletedCommand): boolean => {
    const row = commands.get(commandAt(account, key));
    return row?.token === token && row.done === null;
  };

  const write = (draft: StreamDraft): StoredEvent[] =>
    writeEvents(draft, streamOf(draft.account, draft.stream).length).map(({ event, bytes }) => {
      const account = entry(accounts, draft.account);
      const stored = { globalPosition: BigInt(log.length), position: BigInt(account.length), event, bytes };
      log.push(stored);
      account.push(stored);
      streamOf(draft.account, draft.stream).push(stored);
      return stored;
    });

  const append = (what: Append): AppendResult => {
    const drafts = draftStreams(what, now());
    if (!(what.commands ?? []).every((command) => holds(what.account, command))) return { kind: 'claim-lost' };
    for (const { account, stream, expectedVersion } of drafts) {
      const version = streamOf(account, stream).length;
      if (expectedVersion !== 'any' && expectedVersion !== version) return { kind: 'conflict', stream, version };
    }
    for (const { hash, bytes } of what.blobs ?? []) blobs.set(hash, bytes);
    const first = BigInt(entry(accounts, what.account).length);
    const events = drafts.flatMap(write);
    const last = first + BigInt(events.length) - 1n;
    for (const { key, result } of what.commands ?? []) {
      const row = commands.get(commandAt(what.account, key));
      if (row !== undefined) row.done = { result, first, last };
      endings.ended(what.account, key);
    }
    appended.tell(events);
    return { kind: 'appended', first, last, events };
  };

  const tryClaim = (request: ClaimRequest): ClaimTry => {
    const at = commandAt(request.account, request.key);
    const row = commands.get(at);
    if (row !== undefined && row.requestDigest !== request.requestDigest) return { kind: 'mismatch' };
    if (row?.done) return { kind: 'done', ...row.done };
    if (row !== undefined && row.leaseUntil > now().getTime()) return { kind: 'held' };
    const attempt = (row?.attempt ?? 0) + 1;
    const { requestDigest, invocationId } = request;
    const leaseUntil = now().getTime() + request.leaseMs;
    const token = randomUUID();
    commands.set(at, { requestDigest, token, attempt, invocationId, leaseUntil, done: null });
    return { kind: 'claimed', token, attempt, previousInvocationId: row?.invocationId ?? null };
  };

  const ownClaim = (account: string, key: string, token: string): CommandRow | null => {
    const row = commands.get(commandAt(account, key));
    return row?.token === token && row.done === null ? row : null;
  };

  const whenOpen = async <T>(work: () => T): Promise<T> => {
    await Promise.resolve();
    if (!open) throw new LogUnavailable('the log is closed');
    return work();
  };

  return {
    append: (what) => whenOpen(() => append(what)),
    readStream: (account, stream, fromVersion = 1) =>
      whenOpen(() =>
        streamOf(account, stream)
          .slice(Math.max(fromVersion, 1) - 1)
          .map(reread),
      ),
    streamVersion: (account, stream) => whenOpen(() => streams.get(`${account}\0${stream}`)?.length ?? 0),
    readAccount: (account, range) => whenOpen(() => select(accounts.get(account) ?? [], range).map(reread)),
    readAll: (after, limit, types) =>
      whenOpen(() => {
        const later = log.slice(Number(after + 1n));
        return later
          .filter((stored) => hasType(stored, types))
          .slice(0, limit)
          .map(reread);
      }),
    head: () => whenOpen(() => BigInt(log.length) - 1n),
    accountSize: (account) => whenOpen(() => BigInt(accounts.get(account)?.length ?? 0)),
    blob: (hash) => whenOpen(() => blobs.get(hash) ?? null),
    claim: (request) =>
      claimPatiently(
        () => whenOpen(() => tryClaim(request)),
        (ms) => endings.waitFor(request.account, request.key, ms),
        request.waitMs ?? options.claimWaitMs ?? 30_000,
      ),
    renewClaim: (account, key, token, leaseMs) =>
      whenOpen(() => {
        const row = ownClaim(account, key, token);
        if (row !== null) row.leaseUntil = now().getTime() + leaseMs;
        return row !== null;
      }),
    releaseClaim: (account, key, token) =>
      whenOpen(() => {
        if (ownClaim(account, key, token) === null) return;
        commands.delete(commandAt(account, key));
        endings.ended(account, key);
      }),
    onAppended: (listener) => appended.add(listener),
    close: async () => {
      await Promise.resolve();
      open = false;
    },
  };
};

const entry = (lists: Map<string, StoredEvent[]>, key: string): StoredEvent[] => {
  const found = lists.get(key) ?? [];
  if (found.length === 0) lists.set(key, found);
  return found;
};

// Readers get what the bytes say, as from Postgres: nobody comes to rely on a shared object.
const reread = (stored: StoredEvent): StoredEvent => ({ ...stored, event: readEvent(stored.bytes) });

const hasType = ({ event }: StoredEvent, types: readonly EventType[] | undefined): boolean =>
  types === undefined || types.includes(event.type);

const select = (events: readonly StoredEvent[], range: ReadRange): readonly StoredEvent[] => {
  const { after = -1n, until = BigInt(events.length) } = range;
  const found = events.filter(
    (stored) =>
      stored.position > after &&
      stored.position <= until &&
      hasType(stored, range.types) &&
      (range.stream === undefined || stored.event.stream === range.stream) &&
      (range.sessionId === undefined || stored.event.sessionId === range.sessionId),
  );
  return (range.order === 'newest' ? found.reverse() : found).slice(0, range.limit);
};
