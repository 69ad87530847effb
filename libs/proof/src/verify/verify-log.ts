import { hash } from 'node:crypto';
import type { AccountSummary } from './account-walk.js';
import { AccountWalk } from './account-walk.js';
import type { EventHead } from './columns.js';
import { readHead } from './columns.js';
import type { Fault, OnFault } from './fault.js';
import { isLogFormat } from '../log-format.js';
import { rowTagKey } from '../row-tag.js';
import { taggerOf } from './hashes.js';
import { NamedCheck } from './named-check.js';
import type { OutsideFindings, OutsideLine } from './outside-check.js';
import { readOutside } from './outside-check.js';
import type { DataKeyRow, LogFacts, LogSource } from './source.js';
import type { LogKey, RecordedKey, TrustedKeys } from './trusted-keys.js';
import { recordedKeyOf, trustedKeys } from './trusted-keys.js';

/** What a data key does under the master key; `unknown`: it is wrapped by a key that was not given. */
export type DataKeyOpening = 'opens' | 'changed' | 'unknown';

/** What to verify with, beside the log itself. */
export interface VerifyOptions {
  /** Only this account; null for all of them and what they share. */
  readonly account: string | null;
  /** What row tags are made under, opened with the master key; null without one. */
  readonly rootSecret: Uint8Array | null;
  /** Tries a data key; null without the master key. */
  readonly openDataKey: ((row: DataKeyRow) => DataKeyOpening) | null;
  /** Public keys from outside of the database; none = those of the database count. */
  readonly logKeys: readonly LogKey[];
  /** The lines of a checkpoint file that was read before the source was opened; null without one. */
  readonly outside: AsyncIterable<OutsideLine> | null;
  readonly onFault: OnFault;
  readonly onProgress: (progress: VerifyProgress) => void;
}

/** How far a verification has come. */
export interface VerifyProgress {
  readonly doing: 'checkpoint file' | 'blobs' | 'data keys' | 'events' | 'positions';
  readonly done: number;
  /** Null where it is not known beforehand. */
  readonly of: number | null;
}

/** What a verification found. */
export interface VerifySummary {
  readonly ok: boolean;
  readonly faults: number;
  readonly faultsByCode: Readonly<Record<string, number>>;
  readonly accounts: readonly AccountSummary[];
  readonly events: number;
  readonly blobs: number;
  readonly dataKeys: number;
  readonly outside: { readonly lines: number; readonly newest: string | null } | null;
  /** What could not be checked, and why, in sentences. */
  readonly notes: readonly string[];
}

/** Verifies a log: every fault is told, and what could not be checked is noted. Throws what the source throws. */
export const verifyLog = (source: LogSource, options: VerifyOptions): Promise<VerifySummary> =>
  new LogVerification(source, options).run();

interface Erasure {
  readonly account: string;
  readonly position: number;
  readonly state: string;
}

interface NotedSize {
  readonly size: number;
  readonly position: number;
}

class LogVerification {
  private readonly byCode = new Map<string, number>();
  private readonly accounts: AccountSummary[] = [];
  private readonly notes: string[] = [];
  private readonly changedBlobs = new Map<string, 'unnamed' | 'named'>();
  private readonly changedKeys = new Map<string, 'unnamed' | 'named'>();
  /** Data keys that are on record as destroyed. Grows with erasures, not with the log. */
  private readonly erased = new Map<string, Erasure>();
  /** Sizes of accounts as the instances noted them in the log itself. */
  private readonly heartbeats = new Map<string, NotedSize>();
  private readonly counts = { events: 0, blobs: 0, dataKeys: 0, positions: 0 };

  constructor(
    private readonly source: LogSource,
    private readonly options: VerifyOptions,
  ) {}

  async run(): Promise<VerifySummary> {
    const facts = await this.source.facts();
    const keys = await this.findKeys(facts);
    const outside = await this.readOutside(keys);
    const logId = this.logIdOf(facts, outside);
    this.checkFormat(facts);
    await this.readErasures();
    await this.checkBlobs();
    await this.checkDataKeys(facts);
    await this.walkAccounts(facts, keys, logId, outside);
    if (this.options.account === null) await this.checkPositions(facts);
    this.checkSizes(outside);
    this.checkUnnamed();
    this.noteGaps(keys);
    return this.summary(outside);
  }

  private readonly fault = (fault: Fault): void => {
    const { account } = this.options;
    if (account !== null && fault.account !== null && fault.account !== account) return;
    this.byCode.set(fault.code, (this.byCode.get(fault.code) ?? 0) + 1);
    this.options.onFault(fault);
  };

  /** The log's own events say which key came into force when. */
  private async findKeys(facts: LogFacts): Promise<TrustedKeys> {
    const { logId } = facts;
    const recorded: RecordedKey[] = [];
    for await (const rows of this.source.eventsOfTypes('system', ['log_key.rotated'])) {
      for (const row of rows) {
        const head = readHead(row.prefixed.toString('utf8', 1));
        if (head === null) continue;
        this.checkRecordedFormat(facts, head, row.accountPosition);
        const key = recordedKeyOf(head, row.accountPosition, row.recordedAt);
        if (key === null) continue;
        const last = recorded.at(-1);
        if (last !== undefined) recorded[recorded.length - 1] = { ...last, validUntil: key.validFrom };
        recorded.push(key);
      }
    }
    const { logKeys: given, rootSecret } = this.options;
    return trustedKeys({ given, recorded, rows: await this.source.logKeys(), logId, rootSecret, onFault: this.fault });
  }

  /** Each event that puts a key in force repeats the log's own facts. */
  private checkRecordedFormat({ logId, untaggedUntil }: LogFacts, { data }: EventHead, position: number): void {
    const said = data as { log?: unknown; untaggedUntil?: unknown };
    if (said.log === undefined || (said.log === logId && said.untaggedUntil === String(untaggedUntil))) return;
    const found = 'it does not say what the event says that put a log key in force';
    this.fault({ code: 'format-changed', account: 'system', position, at: 'log_format', found });
  }

  private readOutside(keys: TrustedKeys): Promise<OutsideFindings | null> {
    const { outside } = this.options;
    if (outside === null) return Promise.resolve(null);
    return readOutside(this.counted(outside), this.source, keys, this.fault);
  }

  private async *counted(lines: AsyncIterable<OutsideLine>): AsyncIterable<OutsideLine> {
    let done = 0;
    for await (const line of lines) {
      yield line;
      done += 1;
      this.options.onProgress({ doing: 'checkpoint file', done, of: null });
    }
  }

  private logIdOf({ logId }: LogFacts, outside: OutsideFindings | null): string | null {
    const given = outside?.logId ?? null;
    if (given !== null && logId !== null && given !== logId) {
      this.fault({
        code: 'outside-differs',
        account: null,
        position: null,
        at: 'checkpoints.jsonl',
        found: `it is of log ${given}, and the database is log ${logId}`,
      });
    }
    return given ?? logId;
  }

  /** Since which row there are tags must not be for the database alone to say. */
  private checkFormat({ logId, mac, untaggedUntil }: LogFacts): void {
    const { rootSecret } = this.options;
    // Before the first start there is nothing to hold it to.
    if (rootSecret === null || (logId === null && mac === null)) return;
    const isRight =
      logId !== null &&
      mac !== null &&
      isLogFormat(rootSecret, { log: logId, untaggedUntil: BigInt(untaggedUntil) }, mac);
    if (isRight) return;
    const found = 'it is not what the program gave its word for';
    this.fault({ code: 'format-changed', account: null, position: null, at: 'log_format', found });
  }

  /** Blobs and keys that are gone on record; the events that say so are checked with all others later. */
  private async readErasures(): Promise<void> {
    for await (const { account } of this.source.accounts()) {
      for await (const rows of this.source.eventsOfTypes(account, ['payload.erased'])) {
        for (const row of rows) this.readErasure(account, row.accountPosition, row.prefixed);
      }
    }
  }

  private readErasure(account: string, position: number, prefixed: Buffer): void {
    try {
      const { data } = JSON.parse(prefixed.toString('utf8', 1)) as { data: { keys?: unknown; state?: unknown } };
      const state = typeof data.state === 'string' ? data.state : 'done';
      if (!Array.isArray(data.keys)) return;
      for (const key of data.keys as readonly unknown[]) {
        if (typeof key !== 'string') continue;
        if (this.erased.get(key)?.state !== 'done') this.erased.set(key, { account, position, state });
      }
    } catch {
      // It is reported where the walk comes to it.
    }
  }

  private async checkBlobs(): Promise<void> {
    for await (const rows of this.source.blobs()) {
      for (const { hash: name, bytes } of rows) {
        if (hash('sha256', bytes, 'hex') !== name) this.changedBlobs.set(name, 'unnamed');
      }
      this.counts.blobs += rows.length;
      this.options.onProgress({ doing: 'blobs', done: this.counts.blobs, of: null });
    }
  }

  private async checkDataKeys({ masters }: LogFacts): Promise<void> {
    let unknown = 0;
    for await (const rows of this.source.dataKeys()) {
      for (const row of rows) {
        const opening = this.checkDataKey(row);
        // A master key that was never in force is none that somebody forgot to give. A key that was destroyed is under
        // none: its row names the one of that time, however many rotations ago.
        const isUnderNone = row.wrapped !== null && !masters.includes(row.master);
        if (opening === 'changed' || isUnderNone) this.changedKeys.set(row.id, 'unnamed');
        else if (opening === 'unknown') unknown += 1;
      }
      this.counts.dataKeys += rows.length;
      this.options.onProgress({ doing: 'data keys', done: this.counts.dataKeys, of: null });
    }
    if (unknown > 0 && this.options.openDataKey !== null) {
      this.notes.push(
        `${unknown} data keys are wrapped by a master key that was not given: whether they open is not checked.`,
      );
    }
  }

  private checkDataKey(row: DataKeyRow): DataKeyOpening {
    const report = (code: 'erasure-unrecorded' | 'erasure-undone', position: number | null, found: string): void =>
      this.fault({ code, account: row.account, position, at: `data key ${row.id}`, found });
    const erasure = this.erased.get(row.id);
    const isErased = row.wrapped === null;
    if (isErased !== (row.erasedAt !== null)) this.changedKeys.set(row.id, 'unnamed');
    if (isErased && erasure === undefined) report('erasure-unrecorded', null, 'no payload.erased names it');
    if (!isErased && erasure !== undefined && erasure.state !== 'begun') {
      report(
        'erasure-undone',
        erasure.position,
        `the event at position ${erasure.position} says that it was destroyed`,
      );
    }
    if (isErased) return 'opens';
    return this.options.openDataKey?.(row) ?? 'unknown';
  }

  private async walkAccounts(
    facts: LogFacts,
    keys: TrustedKeys,
    logId: string | null,
    outside: OutsideFindings | null,
  ): Promise<void> {
    const { source, options } = this;
    const known = { changedBlobs: this.changedBlobs, changedKeys: this.changedKeys, erasedKeys: this.erased };
    const named = new NamedCheck(source, known, this.fault);
    const of = facts.head === null ? null : facts.head + 1;
    const tagKey = options.rootSecret === null ? null : rowTagKey(options.rootSecret);
    for await (const row of source.accounts()) {
      if (options.account !== null && row.account !== options.account) continue;
      const walk = new AccountWalk({
        source,
        row,
        logId,
        keys,
        tagger: tagKey === null ? null : taggerOf(tagKey, row.account),
        untaggedUntil: facts.untaggedUntil,
        outside: outside?.roots.get(row.account) ?? [],
        named,
        onFault: this.fault,
        onEvent: (position, head) => this.takeHeartbeat(position, head),
        onProgress: (events) => {
          this.counts.events += events;
          options.onProgress({
            doing: 'events',
            done: this.counts.events,
            of: options.account === null ? of : row.size,
          });
        },
      });
      this.accounts.push(await walk.run());
    }
  }

  /** Every instance notes the sizes of all accounts now and then: another witness of what was there. */
  private takeHeartbeat(position: number, { account, type, data }: EventHead): void {
    if (type !== 'instance.heartbeat' || account !== 'system') return;
    const { sizes } = data as { sizes?: unknown };
    if (typeof sizes !== 'object' || sizes === null) return;
    for (const [name, text] of Object.entries(sizes as Record<string, unknown>)) {
      const size = Number(text);
      if (size > (this.heartbeats.get(name)?.size ?? -1)) this.heartbeats.set(name, { size, position });
    }
  }

  /** Accounts that are not there, or end too early, by what was noted outside and by the log itself. */
  private checkSizes(outside: OutsideFindings | null): void {
    const sizes = new Map(this.accounts.map(({ account, size }) => [account, size]));
    const { account: only } = this.options;
    for (const [account, roots] of outside?.roots ?? []) {
      const newest = roots.at(-1);
      if (sizes.has(account) || newest === undefined || (only !== null && only !== account)) continue;
      const found = `the file that was signed at ${newest.at} has ${newest.size} events of it`;
      this.fault({ code: 'account-vanished', account, position: null, at: 'checkpoints.jsonl', found });
    }
    for (const [account, { size, position }] of this.heartbeats) {
      const found = `the heartbeat at position ${position} of system noted ${size} events of it`;
      const here = sizes.get(account);
      if (here === undefined && size > 0 && only === null) {
        this.fault({ code: 'account-vanished', account, position: null, at: 'event instance.heartbeat', found });
      } else if (here !== undefined && here < size) {
        this.fault({ code: 'log-truncated', account, position: here, at: 'event instance.heartbeat', found });
      }
    }
  }

  private async checkPositions({ head }: LogFacts): Promise<void> {
    const gone = this.accounts.reduce((sum, { missing, purged, strays }) => sum + missing + purged - strays, 0);
    const gaps: { readonly first: number; readonly last: number }[] = [];
    let [before, missing, done] = [-1, 0, 0];
    const report = (code: 'position-missing' | 'position-repeated' | 'head-changed', found: string): void =>
      this.fault({
        code,
        account: null,
        position: null,
        at: code === 'head-changed' ? 'head.position' : 'event.position',
        found,
      });
    const gap = (first: number, last: number): void => {
      missing += last - first + 1;
      if (gaps.length < 10_000) gaps.push({ first, last });
    };
    for await (const positions of this.source.positions()) {
      for (const position of positions) {
        if (position === before) report('position-repeated', `global position ${position} is there twice`);
        else if (position > before + 1) gap(before + 1, position - 1);
        before = position;
      }
      done += positions.length;
      this.options.onProgress({ doing: 'positions', done, of: head === null ? null : head + 1 });
    }
    if (head === null) report('head-changed', 'there is no head row');
    else if (head < before) report('head-changed', `it says ${head}, and the last row is at ${before}`);
    else if (head > before) gap(before + 1, head);
    // What is gone from the accounts is told there.
    if (missing <= gone) return;
    if (head !== null && head > before) report('head-changed', `it says ${head}, and the last row is at ${before}`);
    for (const { first, last } of gaps) {
      const words = first === last ? `global position ${first} is` : `global positions ${first} to ${last} are`;
      report('position-missing', `${words} not there`);
    }
  }

  private checkUnnamed(): void {
    for (const [name, state] of this.changedBlobs) {
      if (state === 'named') continue;
      const found = 'its bytes have another hash; no event names it';
      this.fault({ code: 'blob-changed', account: null, position: null, at: `blob ${name}`, found });
    }
    for (const [name, state] of this.changedKeys) {
      if (state === 'named') continue;
      const found = 'its row was changed; no event names it';
      this.fault({ code: 'key-changed', account: null, position: null, at: `data key ${name}`, found });
    }
  }

  private noteGaps(keys: TrustedKeys): void {
    const { options, notes } = this;
    const sum = (count: (account: AccountSummary) => number): number =>
      this.accounts.reduce((all, account) => all + count(account), 0);
    const unsealed = sum(({ size, sealed }) => Math.max(size - sealed, 0));
    const [untagged, underWay] = [sum((account) => account.untagged), sum((account) => account.purgeUnderWay)];
    if (options.rootSecret === null) {
      notes.push(
        'Without the master key the tags of rows are not checked: a row that was forged before it was sealed is not found.',
      );
    }
    if (keys.from === 'record' && options.rootSecret === null) {
      notes.push(
        'The public keys were taken from the log itself: whoever rewrote all of it could have replaced them. Give them with --log-key or --checkpoints.',
      );
    }
    if (keys.newer.length > 0) {
      notes.push(
        `Log keys ${keys.newer.join(', ')} came into force after those that were given: the tags of their events vouch for them.`,
      );
    }
    if (options.outside === null) {
      notes.push(
        'Without a checkpoint file from outside of the database, a log that was set back or cut off together with its checkpoints is not found.',
      );
    }
    if (unsealed > 0) notes.push(`${unsealed} events are not sealed yet: only their tags vouch for them.`);
    if (untagged > 0) notes.push(`${untagged} events are from before rows had tags: only the tree vouches for them.`);
    if (underWay > 0)
      notes.push(`${underWay} events are to be removed by a recorded purge that has not come to its end.`);
  }

  private summary(outside: OutsideFindings | null): VerifySummary {
    const cutOff = outside?.cutOff ?? 0;
    if (cutOff > 0) {
      this.notes.push(`${cutOff} lines of the checkpoint file were not ended: their writer was interrupted.`);
    }
    const faults = [...this.byCode.values()].reduce((sum, count) => sum + count, 0);
    return {
      ok: faults === 0,
      faults,
      faultsByCode: Object.fromEntries([...this.byCode].sort()),
      accounts: this.accounts,
      events: this.counts.events,
      blobs: this.counts.blobs,
      dataKeys: this.counts.dataKeys,
      outside: outside === null ? null : { lines: outside.lines, newest: outside.newest },
      notes: this.notes,
    };
  }
}
