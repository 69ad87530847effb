import { createHmac, timingSafeEqual } from 'node:crypto';
import type { EventStore, Sql, StoredEvent } from '#event-store';
import type { KeyRecord, KeyRing, Logger } from '#platform';
import { derivedKey, errorFacts } from '#platform';
import { parseJson } from '#record';
import type { AccountCreated, AccountFacts, KeyFacts, KeyRevoked } from './directory-state.js';
import { directoryTypes, evolveAccount, newAccount, systemAccount } from './directory-state.js';

/** What the directory is made from. */
export interface DirectoryTools {
  readonly store: EventStore;
  readonly sql: Sql;
  readonly masterKey: Uint8Array;
  readonly logger: Logger;
  /** Time between two looks at the log, ms. Default 200: a change is in force on every replica within a second. */
  readonly pollMs?: number;
  /** Told of data keys that were destroyed, on whichever replica, as soon as this one sees it. */
  readonly onErased?: (keys: readonly string[]) => void;
}

const page = 500;
/** How far the log may run ahead before the next start should not have to read it again. */
const snapshotEvery = 20_000n;

/**
 * All accounts with their keys, settings, secrets and halts, in memory, folded from the log. The log is the only place
 * where they are written: a key works if and only if its `key.created` is there, and no longer than until its
 * `key.revoked` is. A command that writes calls `catchUp` before it answers, so it is in force here at once; other
 * replicas look every 200 ms, and look once more before they refuse a key or an account that they do not know.
 */
export class AccountDirectory implements KeyRing {
  private readonly known = new Map<string, AccountFacts>();
  private readonly byHash = new Map<string, KeyFacts>();
  private position = -1n;
  private savedAt = -1n;
  private reading: Promise<void> | null = null;
  private waiting: Promise<void> | null = null;
  private timer: NodeJS.Timeout | null = null;
  private unsubscribe: (() => void) | null = null;
  private faulty = false;

  constructor(private readonly tools: DirectoryTools) {
    this.known.set(systemAccount, newAccount(systemAccount, 'Hookledger itself', new Date(0).toISOString()));
  }

  /** Reads what there is and follows from then on. */
  async start(): Promise<void> {
    await this.load();
    await this.catchUp();
    this.timer = setInterval(() => void this.follow(), this.tools.pollMs ?? 200);
    this.timer.unref();
    this.unsubscribe = this.tools.store.onAppended(() => void this.follow());
  }

  /** Ends the following, and saves where it was, so that the next start reads little. */
  async stop(): Promise<void> {
    if (this.timer !== null) clearInterval(this.timer);
    this.unsubscribe?.();
    await this.reading?.catch(() => undefined);
    if (this.position > this.savedAt) await this.save().catch(() => undefined);
  }

  /** Resolves when everything that was committed before this call is in force here. */
  async catchUp(): Promise<void> {
    if (this.reading === null) return this.read();
    // The reading under way may have begun before the caller's commit; the next one has not.
    this.waiting ??= this.reading
      .catch(() => undefined)
      .then(() => {
        this.waiting = null;
        return this.read();
      });
    return this.waiting;
  }

  /** Resolves with the position in an account's log up to which everything is in force here; null: it is empty. */
  async completeUpTo(account: string): Promise<string | null> {
    const size = await this.tools.store.accountSize(account);
    await this.catchUp();
    return size === 0n ? null : String(size - 1n);
  }

  accounts(): readonly AccountFacts[] {
    return [...this.known.values()];
  }

  account(id: string): AccountFacts | null {
    return this.known.get(id) ?? null;
  }

  async accountExists(id: string): Promise<boolean> {
    if (this.known.has(id)) return true;
    await this.catchUp();
    return this.known.has(id);
  }

  async keyByHash(hash: string): Promise<KeyRecord | null> {
    if (!this.byHash.has(hash)) await this.catchUp();
    const key = this.byHash.get(hash);
    if (key === undefined) return null;
    // Only operators span accounts, and their keys belong to `system`.
    return { ...key, account: key.role === 'operator' ? null : key.account };
  }

  private async follow(): Promise<void> {
    if (this.reading !== null) return;
    try {
      await this.read();
      this.faulty = false;
    } catch (error) {
      // Once, not five times a second for as long as the database is away.
      if (!this.faulty) this.tools.logger.warn(errorFacts(error), 'the log cannot be followed for keys and settings');
      this.faulty = true;
    }
  }

  private read(): Promise<void> {
    this.reading ??= this.readToHead().finally(() => {
      this.reading = null;
    });
    return this.reading;
  }

  private async readToHead(): Promise<void> {
    // Asked first: what is committed meanwhile stands above it, so nothing between is passed over.
    const head = await this.tools.store.head();
    while (this.position < head) {
      const events = await this.tools.store.readAll(this.position, page, directoryTypes);
      for (const stored of events) this.take(stored);
      const last = events.at(-1)?.globalPosition ?? this.position;
      if (events.length === page) this.position = last;
      else this.position = last > head ? last : head;
    }
    if (this.position - this.savedAt > snapshotEvery) await this.save();
  }

  private take({ globalPosition, event }: StoredEvent): void {
    this.position = globalPosition;
    if (event.type === 'account.created') {
      const { id, name } = event.data as unknown as AccountCreated;
      if (!this.known.has(id)) this.known.set(id, newAccount(id, name, event.recordedAt));
      return;
    }
    if (event.type === 'payload.erased') {
      this.tools.onErased?.(event.data.keys as readonly string[]);
      return;
    }
    const before = this.known.get(event.account);
    if (before === undefined) return;
    const after = evolveAccount(before, event);
    this.known.set(after.id, after);
    if (event.type === 'key.created' || event.type === 'key.revoked') {
      this.noteKey(after.keys.get((event.data as unknown as KeyRevoked).id));
    }
  }

  private noteKey(key: KeyFacts | undefined): void {
    if (key === undefined) return;
    if (key.revokedAt === null) this.byHash.set(key.hash, key);
    else if (this.byHash.get(key.hash)?.id === key.id) this.byHash.delete(key.hash);
  }

  // The snapshot only spares a start the reading of a long log. It carries a MAC, since whoever writes into the
  // database must not be able to make a key; one that does not fit is left aside and the log is read.
  private async load(): Promise<void> {
    const rows = await this.tools.sql.query<{ position: string; state: string; mac: Buffer }>(
      'select position, state, mac from directory_snapshot where format = $1',
      [snapshotFormat],
    );
    const [row] = rows;
    if (row === undefined || !timingSafeEqual(row.mac, this.mac(row.position, row.state))) return;
    for (const account of parseJson(row.state) as unknown as readonly StoredAccount[]) this.restore(account);
    this.position = BigInt(row.position);
    this.savedAt = this.position;
  }

  private restore({ keys, secrets, ...facts }: StoredAccount): void {
    this.known.set(facts.id, {
      ...facts,
      keys: byId(keys),
      secrets: new Map(secrets.map((secret) => [secret.name, secret])),
    });
    keys.forEach((key) => this.noteKey(key));
  }

  private async save(): Promise<void> {
    const position = this.position;
    const accounts = this.accounts().map(({ keys, secrets, ...facts }) => ({
      ...facts,
      keys: [...keys.values()],
      secrets: [...secrets.values()],
    }));
    const state = JSON.stringify(accounts);
    this.savedAt = position;
    await this.tools.sql.query(
      `insert into directory_snapshot (format, position, state, mac) values ($1, $2, $3, $4)
       on conflict (format) do update set position = excluded.position, state = excluded.state, mac = excluded.mac
       where directory_snapshot.position < excluded.position`,
      [snapshotFormat, String(position), state, this.mac(String(position), state)],
    );
  }

  private mac(position: string, state: string): Buffer {
    const key = derivedKey(this.tools.masterKey, 'hookledger/directory-snapshot/v1');
    return createHmac('sha256', key).update(`${snapshotFormat}\n${position}\n${state}`).digest();
  }
}

/** Changes whenever the state's form does; a snapshot of another form is not read. */
const snapshotFormat = 1;

type StoredAccount = Omit<AccountFacts, 'keys' | 'secrets'> & {
  readonly keys: readonly KeyFacts[];
  readonly secrets: readonly (AccountFacts['secrets'] extends ReadonlyMap<string, infer S> ? S : never)[];
};

const byId = (keys: readonly KeyFacts[]): ReadonlyMap<string, KeyFacts> => new Map(keys.map((key) => [key.id, key]));
