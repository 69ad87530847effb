import { createHash, randomUUID } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { dropPurgedRows } from '#audit';
import type { EventStore, Sql, StoredEvent } from '#event-store';
import { keepingStream, purgePolicy, rangesOf, type PositionRange, type PurgePolicy } from '#keeping';
import { CONFIG, EVENT_STORE, SQL, type ServerConfig } from '#platform';
import { asData, type Actor, type EventType, type NewEvent, type RecordedEvent, type Sealed } from '#record';
import { relayName } from '../../worker/kafka-relay-lease.js';
import { KeepingLog, type KeepingAt } from './keeping-log.js';
import { planStretch, type Doomed, type Stretch } from './purge-plan.js';

/** `data` of `retention.purged`. */
interface Purged {
  readonly purgeId: string;
  readonly ranges: readonly PositionRange[];
  readonly events: number;
  readonly policy: PurgePolicy;
  readonly holds: readonly string[];
  /** SHA-256 over the leaf hashes of what was removed, in the order of positions; null when nothing was. */
  readonly root: string | null;
  readonly types: { readonly [type: string]: number };
  readonly blobs?: readonly string[];
  readonly cause: 'asked' | 'scheduled';
  readonly reason?: Sealed;
}

/** Who purges, and why. */
export interface PurgeOrder {
  readonly account: string;
  readonly actor: Actor;
  readonly cause: 'asked' | 'scheduled';
  readonly reason?: Sealed;
  readonly reasonBlobs?: Parameters<EventStore['append']>[0]['blobs'];
}

/** A purge, from its events, or as it would be. */
export interface Purge {
  readonly purgeId: string | null;
  readonly dryRun: boolean;
  readonly events: number;
  readonly ranges: readonly PositionRange[];
  readonly types: { readonly [type: string]: number };
  readonly held: number;
  readonly holds: readonly string[];
  readonly policy: PurgePolicy;
  readonly blobs: number;
  readonly positions: readonly string[];
  readonly purgedAt: string | null;
}

/** Rows that one call of the database's function removes, and blobs that one transaction does. */
const rowsAtOnce = 2_000;
const blobsAtOnce = 1_000;

/** Positions of the log that one look for names of blobs takes in. */
const namesAtOnce = 20_000n;

/** Ranges that an answer shows. */
const shownRanges = 10_000;

/** A client's key has no space in it: nobody else claims this one. */
const claimKey = 'keeping purge';
const leaseMs = 30_000;

/** The event types that say what was purged. */
export const purgeTypes: readonly EventType[] = ['retention.purged'];

const purgedIn = (event: RecordedEvent): Purged => event.data as unknown as Purged;

/**
 * Removes what is past its retention and not held. Every batch is put on record first and removed then, by a function of
 * the database that takes only the record's word: what is missing is always covered, and a batch that a crash cut short
 * is finished by whoever finds it.
 */
@Injectable()
export class PurgeWork {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SQL) private readonly sql: Sql,
    @Inject(CONFIG) private readonly config: ServerConfig,
    private readonly keeping: KeepingLog,
  ) {}

  /** What a purge would remove now. */
  async plan(account: string): Promise<Purge> {
    const keeping = await this.keeping.read(account);
    const policy = purgePolicy(keeping.retention, new Date());
    const positions: bigint[] = [];
    const types: Record<string, number> = {};
    let held = 0;
    for (let after: bigint | null = -1n; after !== null;) {
      const stretch: Stretch = await this.stretch(account, keeping, policy, after);
      positions.push(...stretch.doomed.map(({ position }) => position));
      count(types, stretch.doomed);
      held += stretch.held;
      after = stretch.next;
    }
    return {
      purgeId: null,
      dryRun: true,
      events: positions.length,
      ranges: rangesOf(positions).slice(0, shownRanges),
      types,
      held,
      holds: [...keeping.holds.keys()],
      policy,
      blobs: 0,
      positions: [],
      purgedAt: null,
    };
  }

  /** Purges; one at a time in an account. Rejects with `LogBusy` while another one runs for long. */
  async run(order: PurgeOrder): Promise<Purge> {
    const { account } = order;
    const request = { account, key: claimKey, requestDigest: '', invocationId: null, leaseMs };
    const claim = await this.store.claim(request);
    if (claim.kind !== 'claimed') throw new Error('the claim of purges is never completed');
    const renewal = setInterval(() => {
      this.store.renewClaim(account, claimKey, claim.token, leaseMs).catch(() => undefined);
    }, leaseMs / 3);
    try {
      await this.finishEarlier(account);
      return await this.purge(order);
    } finally {
      clearInterval(renewal);
      await this.store.releaseClaim(account, claimKey, claim.token).catch(() => undefined);
    }
  }

  /** Removes what a recorded purge names, as far as it is still there. */
  async removeRecorded(account: string, position: bigint): Promise<void> {
    for (;;) {
      const [row] = await this.sql.query<{ removed: number }>('select purge_recorded($1, $2, $3) as removed', [
        account,
        String(position),
        rowsAtOnce,
      ]);
      if ((row?.removed ?? 0) === 0) return;
    }
  }

  private async purge(order: PurgeOrder): Promise<Purge> {
    const { account } = order;
    const begun = new Date();
    const purgeId = randomUUID();
    const told: StoredEvent[] = [];
    let held = 0;
    for (let after: bigint | null = -1n; after !== null;) {
      const batch: Batch = await this.batch(order, purgeId, begun, after, told.length === 0);
      held += batch.held;
      after = batch.next;
      if (batch.told === null) continue;
      told.push(batch.told);
      await this.removeRecorded(account, batch.told.position);
    }
    if (told.some(({ event }) => purgedIn(event).events > 0)) {
      await dropPurgedRows(this.sql, account, begun);
      const last = told.at(-1);
      if (last !== undefined) told.push(...(await this.removeBlobs(order, purgedIn(last.event))));
    }
    return { ...(foldPurges(told)[0] ?? (await this.plan(account))), held, dryRun: false };
  }

  /** Records one batch; nothing where there is nothing to remove, unless it was asked for and is the first. */
  private async batch(
    order: PurgeOrder,
    purgeId: string,
    begun: Date,
    after: bigint,
    isFirst: boolean,
  ): Promise<Batch> {
    const { account } = order;
    for (;;) {
      const keeping = await this.keeping.read(account);
      const policy = purgePolicy(keeping.retention, begun);
      const { doomed, held, next } = await this.stretch(account, keeping, policy, after);
      const says = doomed.length > 0 || (isFirst && next === null && order.cause === 'asked');
      if (!says) return { told: null, held, next };
      const purged: Purged = {
        ...describe(doomed),
        purgeId,
        policy,
        holds: [...keeping.holds.keys()],
        cause: order.cause,
      };
      const told = await this.tell(order, purged, keeping.version);
      // A hold, a release or another retention came between: it is decided anew.
      if (told !== null) return { told, held, next };
    }
  }

  private async tell(order: PurgeOrder, purged: Purged, version: number): Promise<StoredEvent | null> {
    const { reason, reasonBlobs } = order;
    const data = asData({ ...purged, ...(reason === undefined ? {} : { reason }) });
    const event: NewEvent = { type: 'retention.purged', actor: order.actor, data };
    const result = await this.store.append({
      account: order.account,
      writes: [{ stream: keepingStream, expectedVersion: version, events: [event] }],
      ...(reasonBlobs === undefined ? {} : { blobs: reasonBlobs }),
    });
    return result.kind === 'appended' ? (result.events[0] ?? null) : null;
  }

  private async stretch(account: string, keeping: KeepingAt, policy: PurgePolicy, after: bigint): Promise<Stretch> {
    if (Object.keys(policy).length === 0) return { doomed: [], held: 0, next: null };
    const holds = [...keeping.holds.values()];
    return planStretch(this.sql, { account, policy, holds, after, end: await this.purgeable(account) });
  }

  /** Only what the tree holds under a signed checkpoint is purged, and only what Kafka has where there is one. */
  private async purgeable(account: string): Promise<bigint> {
    const [sealed] = await this.sql.query<{ signed: string }>('select signed from tree where account = $1', [account]);
    const signed = BigInt(sealed?.signed ?? 0);
    if (this.config.kafka === null) return signed;
    const [relayed] = await this.sql.query<{ next: string | null }>(
      `select min(e.account_position) as next from event e
        where e.account = $1 and e.position > (select coalesce(min(position), -1) from follower where name = $2)`,
      [account, relayName],
    );
    const next = relayed?.next ?? null;
    return next === null || BigInt(next) > signed ? signed : BigInt(next);
  }

  /** The newest purge may have been cut short by a crash; and blobs that it removed may not be on record yet. */
  private async finishEarlier(account: string): Promise<void> {
    const newest = await this.store.readAccount(account, { types: purgeTypes, order: 'newest', limit: 3 });
    for (const { position } of newest) await this.removeRecorded(account, position);
  }

  /** Removes blobs that only purged events named, then puts on record which. */
  private async removeBlobs(order: PurgeOrder, last: Purged): Promise<readonly StoredEvent[]> {
    const { account } = order;
    const since = await this.store.head();
    await this.keepNamed(account);
    for (;;) {
      const rows = await this.sql.query<{ hash: Buffer }>(
        'select hash from purge_blob where account = $1 order by hash limit $2',
        [account, blobsAtOnce],
      );
      if (rows.length === 0) break;
      await this.sql.query('select remove_blobs($1, $2, $3, $4)', [
        account,
        rows.map(({ hash }) => hash),
        String(since),
        `purge ${last.purgeId}`,
      ]);
    }
    return this.tellBlobs(order, last);
  }

  /** Leaves alone what an event that stays names, or a secret's value. */
  private async keepNamed(account: string): Promise<void> {
    const size = await this.store.accountSize(account);
    for (let from = 0n; from < size; from += namesAtOnce) {
      await this.sql.query(
        `delete from purge_blob p using (
            select distinct decode(m[1], 'hex') as hash
              from event e, regexp_matches(convert_from(e.bytes, 'UTF8'), '"\\$blob":"([0-9a-f]{64})"', 'g') m
              where e.account = $1 and e.account_position >= $2 and e.account_position < $3) named
          where p.account = $1 and p.hash = named.hash`,
        [account, String(from), String(from + namesAtOnce)],
      );
    }
    await this.sql.query(
      `delete from purge_blob p using secret_value s
        where p.account = $1 and s.account = $1 and strpos(s.sealed, encode(p.hash, 'hex')) > 0`,
      [account],
    );
  }

  private async tellBlobs(order: PurgeOrder, last: Purged): Promise<readonly StoredEvent[]> {
    const { account } = order;
    const told: StoredEvent[] = [];
    for (;;) {
      const rows = await this.sql.query<{ hash: string }>(
        `select encode(hash, 'hex') as hash from removed_blob where account = $1 and work like 'purge %' order by 1 limit $2`,
        [account, blobsAtOnce],
      );
      if (rows.length === 0) return told;
      const blobs = rows.map(({ hash }) => hash);
      const purged: Purged = { ...last, ranges: [], events: 0, root: null, types: {}, blobs };
      const { version } = await this.keeping.read(account);
      const event = await this.tell(order, purged, version);
      if (event === null) continue;
      told.push(event);
      await this.sql.query(
        `delete from removed_blob where account = $1 and work like 'purge %' and encode(hash, 'hex') = any ($2::text[])`,
        [account, blobs],
      );
    }
  }
}

interface Batch {
  readonly told: StoredEvent | null;
  readonly held: number;
  readonly next: bigint | null;
}

const describe = (doomed: readonly Doomed[]): Pick<Purged, 'ranges' | 'events' | 'root' | 'types'> => {
  const root = createHash('sha256');
  for (const { leaf } of doomed) root.update(leaf);
  const types: Record<string, number> = {};
  count(types, doomed);
  return {
    ranges: rangesOf(doomed.map(({ position }) => position)),
    events: doomed.length,
    root: doomed.length === 0 ? null : root.digest('hex'),
    types,
  };
};

const count = (types: Record<string, number>, doomed: readonly Doomed[]): void => {
  for (const { type } of doomed) types[type] = (types[type] ?? 0) + 1;
};

/** Purges in the order in which they began, each from all of its events. */
export const foldPurges = (events: readonly StoredEvent[]): readonly Purge[] => {
  const found = new Map<string, Purge>();
  for (const { event, position } of events) {
    const { purgeId, ranges, events: removed, policy, holds, types, blobs = [] } = purgedIn(event);
    const known = found.get(purgeId) ?? { ...nothingPurged, purgeId, policy, holds };
    found.set(purgeId, {
      ...known,
      events: known.events + removed,
      ranges: [...known.ranges, ...ranges].slice(0, shownRanges),
      types: sum(known.types, types),
      blobs: known.blobs + blobs.length,
      positions: [...known.positions, String(position)],
      purgedAt: event.recordedAt,
    });
  }
  return [...found.values()];
};

const nothingPurged: Purge = {
  purgeId: null,
  dryRun: false,
  events: 0,
  ranges: [],
  types: {},
  held: 0,
  holds: [],
  policy: {},
  blobs: 0,
  positions: [],
  purgedAt: null,
};

const sum = (a: Purge['types'], b: Purge['types']): Purge['types'] => {
  const both: Record<string, number> = { ...a };
  for (const [type, n] of Object.entries(b)) both[type] = (both[type] ?? 0) + n;
  return both;
};
