import { Inject, Injectable } from '@nestjs/common';
import { forgetTexts } from '#audit';
import type { EventStore, Sql, StoredEvent } from '#event-store';
import { erasureStream } from '#keeping';
import { EVENT_STORE, SEALING, SQL } from '#platform';
import { asData, type EventType, type Json, type NewEvent, type RecordedEvent, type Sealed } from '#record';
import type { KeyErasure, Sealing } from '#sealing';

/** Blobs that are removed in one transaction, and that one event names. */
const blobsAtOnce = 2_000;

/** `data` of `payload.erased`. */
export interface PayloadErased {
  readonly erasureId: string;
  /** `begun`: the intent, before anything is destroyed. `part` and `done`: what was. */
  readonly state: 'begun' | 'part' | 'done';
  readonly scope: { readonly kind: 'subject' | 'session' | 'account'; readonly id?: string };
  readonly keys: readonly string[];
  readonly blobs: number;
  readonly blobHashes?: readonly string[];
  readonly reason: Sealed | null;
}

/** The events of erasures, from the intent to the end. */
export const erasureTypes: readonly EventType[] = ['payload.erased'];

export const erasedIn = (event: RecordedEvent): PayloadErased => event.data as unknown as PayloadErased;

/**
 * Does what an intent to erase says. Every step may be done again, so that whoever finds the intent without its end goes
 * on from wherever it stopped: keys first, since with them all content is gone; then texts, blobs, and the end.
 */
@Injectable()
export class ErasureWork {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SQL) private readonly sql: Sql,
    @Inject(SEALING) private readonly sealing: Sealing & KeyErasure,
  ) {}

  /** Resolves when the end is on record, by whomever. */
  async finish(account: string, begun: RecordedEvent): Promise<void> {
    const { erasureId, keys } = erasedIn(begun);
    if (await this.isDone(account, erasureId)) return;
    await this.sealing.destroyKeys(account, keys);
    await forgetTexts(this.sql, account, keys);
    await this.removeBlobs(account, erasureId, keys);
    while (!(await this.tell(account, begun)));
    await this.sql.query('delete from removed_blob where account = $1 and work = $2', [account, erasureId]);
  }

  /**
   * Removes what was sealed under a destroyed key by a replica that had not seen it yet, and puts it on record with the
   * erasure. Nobody can open it; it is only not to be kept.
   */
  async sweepLate(): Promise<void> {
    const late = await this.sql.query<{ account: string; id: string }>(
      `select k.account, k.id from data_key k
        where k.wrapped is null and k.erased_at > now() - interval '1 day'
          and exists (select from blob b where b.key_id = k.id) limit 100`,
    );
    for (const { account, id } of late) await this.sweepKey(account, id);
  }

  private async sweepKey(account: string, key: string): Promise<void> {
    const newest = await this.store.readAccount(account, { types: erasureTypes, order: 'newest', limit: 500 });
    const begun = newest.find(({ event }) => erasedIn(event).state === 'begun' && erasedIn(event).keys.includes(key));
    if (begun === undefined) return;
    const { event } = begun;
    // One that has not come to its end tells it all there.
    if (!(await this.isDone(account, erasedIn(event).erasureId))) return;
    await this.removeBlobs(account, erasedIn(event).erasureId, [key]);
    await this.tellLate(account, event);
  }

  private async tellLate(account: string, begun: RecordedEvent): Promise<void> {
    const erased = erasedIn(begun);
    for (;;) {
      const hashes = await this.untold(account, erased.erasureId);
      if (hashes.length === 0) return;
      const event = payloadErased(begun, { ...erased, state: 'part', blobs: hashes.length, blobHashes: hashes });
      const stream = erasureStream(erased.erasureId);
      await this.store.append({ account, writes: [{ stream, expectedVersion: 'any', events: [event] }] });
      await this.forgetTold(account, erased.erasureId, hashes);
    }
  }

  private async isDone(account: string, erasureId: string): Promise<boolean> {
    const events = await this.store.readStream(account, erasureStream(erasureId));
    return events.some(({ event }) => erasedIn(event).state === 'done');
  }

  /** Their names are kept in the same commit: what was removed and not yet told is told by whoever goes on. */
  private async removeBlobs(account: string, work: string, keys: readonly string[]): Promise<void> {
    for (;;) {
      const rows = await this.sql.query(
        `with doomed as (select hash from blob where key_id = any ($3::text[]) limit $4),
          gone as (delete from blob b using doomed d where b.hash = d.hash returning b.hash)
        insert into removed_blob (account, work, hash) select $1, $2, hash from gone on conflict do nothing returning hash`,
        [account, work, keys, blobsAtOnce],
      );
      if (rows.length === 0) return;
    }
  }

  /** Puts some of what was removed on record, or the end; true after the end. The stream's version makes it one. */
  private async tell(account: string, begun: RecordedEvent): Promise<boolean> {
    const erased = erasedIn(begun);
    const stream = erasureStream(erased.erasureId);
    // Looked at before what was told: an end that comes between the two is seen or makes the append lose.
    const expectedVersion = await this.store.streamVersion(account, stream);
    const told = await this.store.readStream(account, stream);
    if (told.some(({ event }) => erasedIn(event).state === 'done')) return true;
    const hashes = await this.untold(account, erased.erasureId);
    const state = hashes.length < blobsAtOnce ? 'done' : 'part';
    const event = payloadErased(begun, { ...erased, state, blobs: hashes.length, blobHashes: hashes });
    const result = await this.store.append({ account, writes: [{ stream, expectedVersion, events: [event] }] });
    if (result.kind !== 'appended') return false;
    await this.forgetTold(account, erased.erasureId, hashes);
    return state === 'done';
  }

  private async forgetTold(account: string, work: string, hashes: readonly string[]): Promise<void> {
    await this.sql.query(
      "delete from removed_blob where account = $1 and work = $2 and encode(hash, 'hex') = any ($3::text[])",
      [account, work, hashes],
    );
  }

  private async untold(account: string, work: string): Promise<readonly string[]> {
    const rows = await this.sql.query<{ hash: string }>(
      "select encode(hash, 'hex') as hash from removed_blob where account = $1 and work = $2 order by 1 limit $3",
      [account, work, blobsAtOnce],
    );
    return rows.map(({ hash }) => hash);
  }
}

const payloadErased = (begun: RecordedEvent, erased: PayloadErased): NewEvent => ({
  type: 'payload.erased',
  ...(begun.actor === undefined ? {} : { actor: begun.actor }),
  data: asData(erased),
});

/** One erasure, from its events. */
export interface Erasure {
  readonly erasureId: string;
  readonly state: 'begun' | 'done';
  readonly scope: { readonly kind: PayloadErased['scope']['kind']; readonly id: string | null };
  readonly keys: readonly string[];
  readonly blobs: number;
  readonly reason: Sealed | null;
  readonly actor: Json;
  readonly begunAt: string;
  readonly doneAt: string | null;
  readonly positions: { readonly begun: string; readonly done: string | null };
}

/** Erasures in the order in which they were begun. */
export const foldErasures = (events: readonly StoredEvent[]): readonly Erasure[] => {
  const found = new Map<string, Erasure>();
  for (const { event, position } of events) {
    const { erasureId, state, scope, keys, blobs, reason } = erasedIn(event);
    const known = found.get(erasureId);
    if (known === undefined) {
      found.set(erasureId, {
        erasureId,
        state: 'begun',
        scope: { kind: scope.kind, id: scope.id ?? null },
        keys,
        blobs,
        reason,
        actor: (event.actor ?? null) as unknown as Json,
        begunAt: event.recordedAt,
        doneAt: null,
        positions: { begun: String(position), done: null },
      });
      continue;
    }
    const done = state === 'done';
    found.set(erasureId, {
      ...known,
      blobs: known.blobs + blobs,
      ...(done
        ? {
            state: 'done',
            doneAt: event.recordedAt,
            positions: { begun: known.positions.begun, done: String(position) },
          }
        : {}),
    });
  }
  return [...found.values()];
};
