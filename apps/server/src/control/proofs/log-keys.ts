import {
  createCipheriv,
  createDecipheriv,
  createPrivateKey,
  generateKeyPairSync,
  randomBytes,
  randomUUID,
} from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import type { Append, CompletedCommand, EventStore, Sql, StoredEvent } from '#event-store';
import { derivedKey, StartFailure } from '#platform';
import type { LogFormat, NoteSigner, NoteVerifier, RowTagKey } from '#proof';
import {
  isLogFormat,
  logFormatMac,
  logKeyName,
  noteSigner,
  rawPublicKey,
  rowTag,
  rowTagKey,
  readVerifierKey,
  verifierKeyText,
} from '#proof';
import type { Actor, NewEvent, RecordedEvent, Sealed } from '#record';
import { asData, leafHash, readEvent } from '#record';
import { systemAccount } from '../accounts/directory-state.js';

/** Stream, in `system`, of the log's keys: one event for each that came into force. */
export const logKeyStream = 'log-keys';

/** A key of the log, and when it was in force. */
export interface LogKey {
  readonly id: string;
  readonly verifier: NoteVerifier;
  readonly validFrom: string;
  /** Null while it is in force. */
  readonly validUntil: string | null;
}

/** `data` of `log_key.rotated`. */
interface LogKeyRotated {
  readonly from: string | null;
  readonly to: string;
  readonly publicKey?: string;
}

/** Who rotates, and why; what else belongs to the same commit. */
export interface Rotation {
  readonly actor: Actor;
  readonly reason?: Sealed;
  readonly blobs?: NonNullable<Append['blobs']>;
  readonly commands?: readonly CompletedCommand[];
  /** Only while this key is in force, null = while none is. Default: whichever is. */
  readonly replaces?: string | null;
}

interface Parts {
  readonly store: EventStore;
  readonly sql: Sql;
  /** What keys are derived from; wrapped, the database holds it (ADR 8). */
  readonly rootSecret: Uint8Array;
}

/**
 * The log's identity and its Ed25519 keys. Which key is in force is what stream `log-keys` says; table `log_key` holds
 * the private part of the one in force, wrapped, and repeats the times for those who read the database only.
 */
export class LogKeys {
  private format: LogFormat | null = null;
  private keys: readonly LogKey[] = [];
  private signing: NoteSigner | null = null;
  private streamVersion = 0;
  private readonly wrapping: Buffer;
  private readonly tagKey: RowTagKey;

  constructor(private readonly parts: Parts) {
    this.wrapping = derivedKey(parts.rootSecret, 'hookledger/log-key/v1');
    this.tagKey = rowTagKey(parts.rootSecret);
  }

  /**
   * Reads the log's id and keys; the first start makes them. Throws `StartFailure` when the log's format is not what
   * this program once gave its word for.
   */
  async start(): Promise<void> {
    this.format = await this.findFormat();
    await this.refresh();
    // Where its private part is gone (a log that was refilled from its topics, say) another key takes its place.
    for (let tries = 0; this.signing === null; tries += 1) {
      if (tries === 5)
        throw new StartFailure('No log key comes into force: see the events of stream log-keys in system.');
      await this.rotate({ actor: { kind: 'system', id: 'log-keys' }, replaces: this.keys.at(-1)?.id ?? null });
    }
  }

  /** Id of the log. */
  get log(): string {
    return this.known().log;
  }

  /** Rows up to this global position have no tag. */
  get untaggedUntil(): bigint {
    return this.known().untaggedUntil;
  }

  /** Every key there was, oldest first, as of the last `refresh`. */
  all(): readonly LogKey[] {
    return this.keys;
  }

  /** The public keys, to open notes with. */
  verifiers(): readonly NoteVerifier[] {
    return this.keys.map(({ verifier }) => verifier);
  }

  /** The key in force, as of the last `refresh`, and since when it is. */
  signer(): { readonly signer: NoteSigner; readonly since: string } {
    const key = this.keys.at(-1);
    if (this.signing === null || key === undefined) throw new Error('no log key is in force');
    return { signer: this.signing, since: key.validFrom };
  }

  /** Looks whether another key came into force; true when one did. */
  async refresh(): Promise<boolean> {
    const { store } = this.parts;
    const news = await store.readStream(systemAccount, logKeyStream, this.streamVersion + 1);
    if (news.length === 0) return false;
    const { keys, version } = await this.recorded();
    const signing = await this.findSigner(keys.at(-1));
    await this.noteTimes(keys);
    if (version < this.streamVersion) return false;
    this.keys = keys;
    this.signing = signing;
    this.streamVersion = version;
    return true;
  }

  /**
   * Keeps rotations out while a round is signed, so that no key signs after it went out of force. For the rest of the
   * transaction.
   */
  async holdStill(inside: Sql): Promise<void> {
    await inside.query(`select pg_advisory_xact_lock_shared(${rotationLock})`);
  }

  /** Puts a new key in force. Answers with its event; null when the claim was lost, or another key was replaced. */
  async rotate(rotation: Rotation): Promise<StoredEvent | null> {
    const { sql, store } = this.parts;
    const signer = noteSigner(logKeyName(this.log), generateKeyPairSync('ed25519').privateKey);
    // Before its event: a key in force without its private part could sign nothing.
    await sql.query('insert into log_key (id, name, public_key, wrapped) values ($1, $2, $3, $4)', [
      signer.id,
      signer.name,
      rawPublicKey(signer.publicKey),
      this.wrap(signer.id, signer.privateKey),
    ]);
    const result = await sql.transaction(async (inside) => {
      await inside.query(`select pg_advisory_xact_lock(${rotationLock})`);
      const { keys, version } = await this.recorded();
      const from = keys.at(-1)?.id ?? null;
      if (rotation.replaces !== undefined && rotation.replaces !== from) return null;
      const events = [this.rotated(signer, from, rotation)];
      const { blobs = [], commands = [] } = rotation;
      const writes = [{ stream: logKeyStream, expectedVersion: version, events }];
      return store.append({ account: systemAccount, writes, blobs, commands });
    });
    await this.refresh();
    return result?.kind === 'appended' ? (result.events[0] ?? null) : null;
  }

  /**
   * The keys by their events. Only events that this program wrote count: a row that somebody put there in SQL would
   * else bring a key that they hold.
   */
  private async recorded(): Promise<{ readonly keys: readonly LogKey[]; readonly version: number }> {
    const rows = await this.parts.sql.query<{
      account_position: string;
      bytes: Buffer;
      tag: Buffer | null;
      version: number;
    }>('select account_position, bytes, tag, version from event where account = $1 and stream = $2 order by version', [
      systemAccount,
      logKeyStream,
    ]);
    const own = rows.filter(({ account_position: position, bytes, tag }) =>
      tag?.equals(rowTag(this.tagKey, systemAccount, BigInt(position), leafHash(bytes))),
    );
    const keys = own.map(({ bytes }) => readEvent(bytes)).reduce<readonly LogKey[]>(withKey, []);
    return { keys, version: rows.at(-1)?.version ?? 0 };
  }

  private rotated(signer: NoteSigner, from: string | null, { actor, reason }: Rotation): NewEvent {
    const data = {
      from,
      to: signer.id,
      log: this.log,
      publicKey: verifierKeyText(signer),
      untaggedUntil: String(this.untaggedUntil),
      ...(reason === undefined ? {} : { reason }),
    };
    return { type: 'log_key.rotated', actor, data: asData(data) };
  }

  private known(): LogFormat {
    if (this.format === null) throw new Error('the log keys were not started');
    return this.format;
  }

  private async findFormat(): Promise<LogFormat> {
    const { sql, rootSecret } = this.parts;
    for (;;) {
      const [row] = await sql.query<{ untagged_until: string; log_id: string | null; mac: Buffer | null }>(
        'select untagged_until, log_id, mac from log_format',
      );
      if (row === undefined) throw changedFormat();
      const untaggedUntil = BigInt(row.untagged_until);
      if (row.log_id !== null) {
        const format = { log: row.log_id, untaggedUntil };
        if (row.mac === null || !isLogFormat(rootSecret, format, row.mac)) throw changedFormat();
        return format;
      }
      const made = { log: randomUUID(), untaggedUntil };
      await sql.query('update log_format set log_id = $1, mac = $2 where log_id is null', [
        made.log,
        logFormatMac(rootSecret, made),
      ]);
    }
  }

  private async findSigner(key: LogKey | undefined): Promise<NoteSigner | null> {
    if (key === undefined) return null;
    const [row] = await this.parts.sql.query<{ wrapped: Buffer | null }>('select wrapped from log_key where id = $1', [
      key.id,
    ]);
    if (row?.wrapped === undefined || row.wrapped === null) return null;
    const signer = noteSigner(key.verifier.name, this.unwrap(key.id, row.wrapped));
    if (signer.id !== key.verifier.id) throw changedKey(key.id);
    return signer;
  }

  /** For those who read the database only. The private part of a key that went out of force goes. */
  private async noteTimes(keys: readonly LogKey[]): Promise<void> {
    for (const { id, verifier, validFrom, validUntil } of keys) {
      await this.parts.sql.query(
        `insert into log_key (id, name, public_key, valid_from, valid_until) values ($1, $2, $3, $4, $5)
          on conflict (id) do update set valid_from = excluded.valid_from, valid_until = excluded.valid_until,
            wrapped = case when excluded.valid_until is null then log_key.wrapped end
          where (log_key.valid_from, log_key.valid_until) is distinct from (excluded.valid_from, excluded.valid_until)`,
        [id, verifier.name, rawPublicKey(verifier.publicKey), validFrom, validUntil],
      );
    }
  }

  private wrap(id: string, key: KeyObject): Buffer {
    const nonce = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', this.wrapping, nonce);
    cipher.setAAD(Buffer.from(`log key ${this.log} ${id}`));
    const der = key.export({ format: 'der', type: 'pkcs8' });
    return Buffer.concat([nonce, cipher.update(der), cipher.final(), cipher.getAuthTag()]);
  }

  private unwrap(id: string, wrapped: Buffer): KeyObject {
    try {
      const decipher = createDecipheriv('aes-256-gcm', this.wrapping, wrapped.subarray(0, 12), { authTagLength: 16 });
      decipher.setAAD(Buffer.from(`log key ${this.log} ${id}`));
      decipher.setAuthTag(wrapped.subarray(-16));
      const der = Buffer.concat([decipher.update(wrapped.subarray(12, -16)), decipher.final()]);
      return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
    } catch {
      throw changedKey(id);
    }
  }
}

const rotationLock = "hashtextextended('hookledger log keys', 0)";

/** The keys with the one that an event put in force. */
const withKey = (keys: readonly LogKey[], event: RecordedEvent): readonly LogKey[] => {
  const { to, publicKey = '' } = event.data as unknown as LogKeyRotated;
  const verifier = readVerifierKey(publicKey);
  if (verifier === null) throw new Error(`log key ${to} is on record without its public part`);
  const at = event.recordedAt;
  const before = keys.map((key) => (key.validUntil === null ? { ...key, validUntil: at } : key));
  return [...before, { id: to, verifier, validFrom: at, validUntil: null }];
};

const changedFormat = (): StartFailure =>
  new StartFailure(
    'Table log_format does not say what this program once put there: somebody changed it. Run hookledger verify.',
  );

const changedKey = (id: string): StartFailure =>
  new StartFailure(`Log key ${id} does not open under this installation's secret: its row in log_key was changed.`);
