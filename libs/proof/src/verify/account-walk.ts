import { signedRootOf, placeOf } from './checkpoint-check.js';
import type { EventHead } from './columns.js';
import { changedColumns, readHead } from './columns.js';
import { Cursor } from './cursor.js';
import type { Fault, FaultCode, OnFault } from './fault.js';
import type { Tagger } from './hashes.js';
import { hexOf, leafHashOf } from './hashes.js';
import type { NamedCheck } from './named-check.js';
import { findNamed } from './named.js';
import { fitsColumns } from './scan.js';
import { Removals } from './removals.js';
import type { AccountRow, CheckpointRow, EventRow, Hash, LogSource, StreamRow } from './source.js';
import { findStreamFaults, StreamTally } from './stream-check.js';
import { TileReader } from './tile-reader.js';
import { TreeWalk } from './tree-walk.js';
import type { TrustedKeys } from './trusted-keys.js';

/** A size and root that a checkpoint outside of the database names. */
export interface OutsideRoot {
  readonly size: number;
  readonly root: Hash;
  /** When it was signed, as its line says. */
  readonly at: string;
  /** Whether the database has this checkpoint too. */
  readonly isStored: boolean;
}

/** What the walk over an account needs. */
export interface AccountContext {
  readonly source: LogSource;
  readonly row: AccountRow;
  readonly logId: string | null;
  readonly keys: TrustedKeys;
  /** Null without the key of the row tags. */
  readonly tagger: Tagger | null;
  readonly untaggedUntil: number;
  /** By size. */
  readonly outside: readonly OutsideRoot[];
  readonly named: NamedCheck;
  readonly onFault: OnFault;
  /** Takes events that say something of the log itself, once they are found to be as recorded. */
  readonly onEvent: (position: number, head: EventHead) => void;
  readonly onProgress: (events: number) => void;
}

/** What the walk found an account to be. */
export interface AccountSummary {
  readonly account: string;
  /** Rows that are there. */
  readonly events: number;
  /** Events up to the last that there is any trace of. */
  readonly size: number;
  /** Events under the newest signed checkpoint. */
  readonly sealed: number;
  readonly purged: number;
  /** Of those, rows that a recorded purge has still to remove. */
  readonly purgeUnderWay: number;
  /** Rows from before there were tags. */
  readonly untagged: number;
  readonly checkpoints: number;
  /** Events that are gone, and no purge covers them. */
  readonly missing: number;
  /** Rows at no place of the log, or at one that another row has. */
  readonly strays: number;
}

/** Events that tell of removals; they are read before the walk. */
const removalTypes = ['retention.purged'];

/** Types whose events the caller wants to see. */
const tellingTypes: ReadonlySet<unknown> = new Set(['payload.erased', 'instance.heartbeat', 'log_key.rotated']);

/**
 * A row and a tile that differ, or that agree and the row's tag does not; a later checkpoint tells which of them is as
 * sealed.
 */
interface Undecided {
  readonly position: number;
  readonly row: Hash;
  readonly tile: Hash;
  /** Of a row with a tag that is not right. */
  readonly tag: 'null' | 'wrong' | 'unknown';
}

const mostUndecided = 100_000;
const mostStrays = 1_000;
/** A wider gap of which nothing is known is not counted through: one changed number must not stop the verifier. */
const longestGap = 1_000_000;
/** Without tags that tell, a row so far beyond all that is known was moved there. */
const likelyGap = 1_000;

/**
 * Goes once over an account's events, beside its tiles, checkpoints and stream rows, in memory that does not depend on
 * how many there are.
 */
export class AccountWalk {
  private readonly account: string;
  private readonly removals = new Removals();
  private readonly streams = new StreamTally();
  private readonly tiles: TileReader;
  private readonly checkpoints: Cursor<CheckpointRow>;
  private readonly streamRows: Cursor<StreamRow>;
  /** The tree of what was sealed; where that is not known, of what is here. */
  private sealed: TreeWalk;
  /** The tree of what is here, while it differs. */
  private here: TreeWalk | null = null;
  private undecided: Undecided[] = [];
  /** Hashes are missing without which no root can be told any more. */
  private isBroken = false;
  private next = 0;
  private boundary = 0;
  private outsideAt = 0;
  private badRoots: { first: number; last: number; count: number } | null = null;
  private gap: { first: number; last: number } | null = null;
  private readonly missingAt: { readonly position: number; readonly leaf: Hash | null }[] = [];
  private readonly strays: { readonly position: number; readonly leaf: Hash; readonly row: EventRow }[] = [];
  private before = -1;
  private beforeThat = -1;
  private lastStreamRowAt = -1;
  private counts = { events: 0, purged: 0, untagged: 0, checkpoints: 0, missing: 0, strays: 0 };
  private signedSize = 0;

  constructor(private readonly context: AccountContext) {
    const { source, row } = context;
    this.account = row.account;
    this.tiles = new TileReader(source, row.account, row.sealed ?? 0, (fault) => this.report(fault));
    this.checkpoints = new Cursor(source.checkpoints(row.account));
    this.streamRows = new Cursor(source.streamsByLast(row.account));
    this.sealed = new TreeWalk((level, index, root) => this.tiles.expect(level, index, root));
  }

  /** Goes over everything. */
  async run(): Promise<AccountSummary> {
    await this.readRemovals();
    let held: EventRow[] = [];
    for await (const rows of this.context.source.events(this.account)) {
      for (const row of rows) {
        const [first] = held;
        if (first === undefined) held.push(row);
        else if (first.accountPosition === row.accountPosition) held.push(row);
        else {
          if (held.length > 1 || !this.walkAtOnce(first)) await this.walk(held);
          held = [row];
        }
      }
      this.context.onProgress(rows.length);
      if (this.context.named.isFull) await this.context.named.ask();
    }
    if (held.length > 0) await this.walk(held);
    return this.finish();
  }

  private async readRemovals(): Promise<void> {
    for await (const rows of this.context.source.eventsOfTypes(this.account, removalTypes)) {
      for (const row of rows) {
        const head = readHead(textOf(row));
        if (head === null || !this.removals.purge(row.accountPosition, head)) {
          this.fault('purge-differs', row.accountPosition, 'event retention.purged', 'its ranges cannot be read');
        }
      }
    }
    this.removals.sort();
  }

  /** The ordinary case, without a wait: the next row, and nothing that stands at its position but its hash. */
  private walkAtOnce(row: EventRow): boolean {
    if (row.accountPosition !== this.next || this.next >= this.boundary) return false;
    const streamRow = this.streamRows.atHand();
    if (streamRow === undefined || streamRow.last < row.position) return false;
    this.check(row, this.tiles.leafAt(this.next));
    this.passStreamRow(row, streamRow);
    this.next += 1;
    return true;
  }

  private async walk(rows: readonly EventRow[]): Promise<void> {
    const position = rows[0]?.accountPosition ?? 0;
    if (position < this.next || (await this.isBeyond(rows, position))) {
      for (const row of rows) this.stray(row);
      return;
    }
    while (this.next < position) await this.missing(position);
    this.tellGap();
    await this.arrive();
    const leaf = this.tiles.leafAt(position);
    const [chosen, ...others] = this.chosenFirst(rows, leaf);
    if (chosen === undefined) return;
    this.check(chosen, leaf);
    await this.passStreamRows(chosen);
    for (const other of others) {
      const found = `the row with global position ${other.position} claims it too`;
      this.fault('event-repeated', position, 'event.account_position', found);
      this.stray(other);
    }
    this.next += 1;
  }

  /** Beyond every trace of the log, a row is a stray and tells of no gap before it. */
  private async isBeyond(rows: readonly EventRow[], position: number): Promise<boolean> {
    if (position === this.next || position <= (await this.knownSize())) return false;
    const { tagger } = this.context;
    if (tagger === null) return position - this.next > likelyGap;
    return rows.every((row) => tagger(position, leafHashOf(row.prefixed)) !== row.tag);
  }

  /** The highest size that anything but the rows speaks of. */
  private async knownSize(): Promise<number> {
    const outside = this.context.outside.at(-1)?.size ?? 0;
    return Math.max(this.context.row.size ?? 0, this.context.row.sealed ?? 0, outside, await this.tiles.entries());
  }

  /** Of rows that claim one position the one that was sealed there comes first, else one with the tag for it. */
  private chosenFirst(rows: readonly EventRow[], leaf: Hash | null): readonly EventRow[] {
    if (rows.length === 1) return rows;
    const right =
      rows.find((row) => leafHashOf(row.prefixed) === leaf) ??
      rows.find((row) => this.context.tagger?.(row.accountPosition, leafHashOf(row.prefixed)) === row.tag) ??
      rows[0];
    return [...rows.filter((row) => row === right), ...rows.filter((row) => row !== right)];
  }

  /** A row at a position that is none of this log's, or that another row has. */
  private stray(row: EventRow): void {
    const { accountPosition: position } = row;
    this.counts.events += 1;
    this.counts.strays += 1;
    this.streams.event(row);
    const leaf = leafHashOf(row.prefixed);
    if (this.strays.length < mostStrays) this.strays.push({ position, leaf, row });
    const head = readHead(textOf(row));
    if (head === null) this.fault('event-unreadable', position, 'event.bytes', 'it is no JSON of an event');
    else this.checkColumns(row, head);
  }

  /** Nothing stands at the next position, and perhaps not up to `end`. */
  private async missing(end: number): Promise<void> {
    await this.arrive();
    const position = this.next;
    const leaf = this.tiles.leafAt(position);
    if (leaf === null && end - position > longestGap) {
      this.missAll(end);
      return;
    }
    const isPurged = this.removals.covers(position);
    this.removals.seen(position, leaf, 'missing');
    if (isPurged) this.counts.purged += 1;
    else this.noteMissing(position, leaf);
    if (isPurged && leaf === null) {
      this.fault('tile-missing', position, 'tile', 'the event was purged and its leaf hash is not kept');
    }
    this.grow(leaf, leaf);
    this.next += 1;
  }

  /** A gap that is too wide to be walked through, and of which nothing is known. */
  private missAll(end: number): void {
    this.tellGap();
    this.gap = { first: this.next, last: end - 1 };
    this.counts.missing += end - this.next;
    this.isBroken = true;
    this.next = end;
    this.boundary = end;
  }

  private noteMissing(position: number, leaf: Hash | null): void {
    this.counts.missing += 1;
    if (this.missingAt.length < mostStrays) this.missingAt.push({ position, leaf });
    if (this.gap?.last === position - 1) this.gap.last = position;
    else {
      this.tellGap();
      this.gap = { first: position, last: position };
    }
  }

  private tellGap(): void {
    if (this.gap === null) return;
    const { first, last } = this.gap;
    this.gap = null;
    const count = last - first + 1;
    const found = count === 1 ? 'there is no row at this position' : `there are no rows at ${count} positions`;
    this.report({
      code: 'event-missing',
      account: this.account,
      position: first,
      ...(count === 1 ? {} : { last }),
      at: 'event',
      found,
    });
  }

  /** Checks a row that stands where the log goes on. `leaf` is what was sealed there, null for nothing. */
  private check(row: EventRow, leaf: Hash | null): void {
    const { context } = this;
    const position = this.next;
    this.counts.events += 1;
    const hash = leafHashOf(row.prefixed);
    const isUntagged = row.tag === null && row.position <= context.untaggedUntil;
    if (isUntagged) this.counts.untagged += 1;
    const tagIsRight =
      context.tagger === null || isUntagged
        ? row.tag !== null || isUntagged
        : context.tagger(position, hash) === row.tag;
    this.removals.seen(position, leaf ?? hash, 'present');
    if (hash === row.leaf && tagIsRight && (leaf === null || leaf === hash)) this.grow(hash, hash);
    else this.judge(row, hash, leaf, tagIsRight);
    this.checkOrder(row);
    this.checkContent(row);
    this.streams.event(row);
  }

  private checkContent(row: EventRow): void {
    const { named } = this.context;
    named.at(this.account, this.next);
    if (fitsColumns(row, named) && !tellingTypes.has(row.type)) return;
    const text = textOf(row);
    const head = readHead(text);
    if (head === null) {
      this.fault('event-unreadable', this.next, 'event.bytes', 'it is no JSON of an event');
      return;
    }
    this.checkColumns(row, head);
    findNamed(text, named);
    if (tellingTypes.has(head.type)) this.context.onEvent(this.next, head);
  }

  private checkColumns(row: EventRow, head: EventHead): void {
    for (const column of changedColumns(row, head)) {
      this.fault('column-changed', row.accountPosition, `event.${column}`, 'the bytes say another value');
    }
  }

  /** Says what of a row is not right. What three witnesses say (bytes, leaf column and tile, or tag) decides. */
  private judge(row: EventRow, hash: Hash, leaf: Hash | null, tagIsRight: boolean): void {
    const position = this.next;
    const hasKey = this.context.tagger !== null;
    const isTagged = hasKey && tagIsRight && row.tag !== null;
    if (leaf === null) this.judgeUnsealed(row, hash, tagIsRight);
    else if (leaf === hash) {
      if (row.leaf !== hash) this.fault('leaf-changed', position, 'event.leaf', `it is not ${hexOf(hash)}`);
      if (!tagIsRight)
        this.undecided.push({ position, row: hash, tile: leaf, tag: row.tag === null ? 'null' : 'wrong' });
    } else if (isTagged) {
      // The gateway itself vouches for the row.
      this.tileFault(position, hash, leaf);
      if (row.leaf !== hash) this.fault('leaf-changed', position, 'event.leaf', `it is not ${hexOf(hash)}`);
      this.grow(hash, hash);
      return;
    } else if (row.leaf === leaf) {
      this.fault(
        'bytes-changed',
        position,
        'event.bytes',
        `they hash to ${hexOf(hash)}, and ${hexOf(leaf)} was sealed`,
      );
    } else if (hasKey) this.rowFault(position, hash, leaf);
    else this.undecided.push({ position, row: hash, tile: leaf, tag: 'unknown' });
    this.grow(leaf ?? hash, hash);
    if (this.undecided.length > mostUndecided) this.decide('row');
  }

  private judgeUnsealed(row: EventRow, hash: Hash, tagIsRight: boolean): void {
    const position = this.next;
    if (row.leaf === hash) {
      if (tagIsRight) return;
      if (row.tag === null) this.fault('tag-missing', position, 'event.tag', 'it is null');
      else this.fault('forged', position, 'event.tag', 'it is not the tag of these bytes at this position');
      return;
    }
    const tagged = row.leaf?.length === 32 ? this.context.tagger?.(position, row.leaf) : undefined;
    if (tagged !== undefined && tagged === row.tag) {
      this.fault('bytes-changed', position, 'event.bytes', `they hash to ${hexOf(hash)}, not to their leaf`);
      return;
    }
    if (!tagIsRight || tagged === undefined) {
      this.fault('bytes-changed', position, 'event.bytes', `they hash to ${hexOf(hash)}, not to the leaf beside them`);
    } else this.fault('leaf-changed', position, 'event.leaf', `the bytes hash to ${hexOf(hash)}`);
    if (!tagIsRight) this.fault('forged', position, 'event.tag', 'it is not the tag of these bytes at this position');
  }

  private tagFault({ position, tag }: Undecided): void {
    if (tag === 'null') this.fault('tag-missing', position, 'event.tag', 'it is null');
    else this.fault('tag-changed', position, 'event.tag', 'it is not the tag of these bytes at this position');
  }

  private rowFault(position: number, row: Hash, tile: Hash): void {
    const found = `the bytes hash to ${hexOf(row)}, and ${hexOf(tile)} was sealed`;
    this.fault('changed-after-sealing', position, 'event.bytes', found);
  }

  private tileFault(position: number, row: Hash, tile: Hash): void {
    const found = `it holds ${hexOf(tile)}, and the row’s hash is ${hexOf(row)}`;
    this.fault('tile-changed', position, `tile 0/${Math.floor(position / 256)}`, found);
  }

  /** Adds a leaf to both trees. Without one no root can be told from here on. */
  private grow(sealed: Hash | null, here: Hash | null): void {
    if (this.isBroken) return;
    if (sealed === null || here === null) {
      this.isBroken = true;
      return;
    }
    if (sealed !== here) this.here ??= this.sealed.copy();
    this.here?.add(here);
    this.sealed.add(sealed);
  }

  private checkOrder(row: EventRow): void {
    if (row.position > this.before) {
      this.beforeThat = this.before;
      this.before = row.position;
      return;
    }
    // One row that jumped ahead must not make all after it look wrong.
    const isRowBefore = row.position > this.beforeThat;
    const [position, globalPosition] = isRowBefore ? [this.next - 1, this.before] : [this.next, row.position];
    const found = `global position ${globalPosition} is out of order`;
    this.fault('out-of-order', position, 'event.position', found);
    if (isRowBefore) this.before = row.position;
  }

  /** Everything that stands at the next position beside its row: the tile it is in, checkpoints of that size. */
  private async arrive(): Promise<void> {
    if (this.next < this.boundary) return;
    await this.tiles.moveTo(this.next);
    await this.checkCheckpoints();
    const tileEnd = (Math.floor(this.next / 256) + 1) * 256;
    const checkpoint = (await this.checkpoints.peek())?.size ?? Infinity;
    const outside = this.context.outside[this.outsideAt]?.size ?? Infinity;
    this.boundary = Math.min(tileEnd, checkpoint, outside);
  }

  private async checkCheckpoints(): Promise<void> {
    const { context } = this;
    for (let row = await this.checkpoints.peek(); row !== undefined && row.size <= this.next;) {
      this.checkpoints.skip();
      this.counts.checkpoints += 1;
      const root = signedRootOf(row, {
        account: this.account,
        logId: context.logId,
        keys: context.keys,
        onFault: context.onFault,
      });
      if (root !== null) {
        this.signedSize = Math.max(this.signedSize, row.size);
        if (row.size === this.next && !this.isBroken && !this.holds(root)) {
          this.decideWithoutRoot();
          this.badRoot(row.size);
        } else this.tellBadRoots();
      }
      row = await this.checkpoints.peek();
    }
    for (let at = context.outside[this.outsideAt]; at !== undefined && at.size <= this.next;) {
      if (at.size === this.next && !this.isBroken) this.checkOutside(at);
      this.outsideAt += 1;
      at = context.outside[this.outsideAt];
    }
  }

  private checkOutside(at: OutsideRoot): void {
    if (!this.holds(at.root)) {
      const found = `the file that was signed at ${at.at} has another root for the first ${at.size} events`;
      this.fault('outside-differs', placeOf(at.size), 'checkpoints.jsonl', found);
    } else if (!at.isStored) {
      const found = `the one of size ${at.size} that was signed at ${at.at} is not in the database`;
      this.fault('checkpoint-missing', placeOf(at.size), 'checkpoint', found);
    }
  }

  /** Whether a signed root is that of the log so far. Decides what was left open. */
  private holds(root: Hash): boolean {
    if (this.sealed.root() === root) {
      this.decide('row');
      return true;
    }
    if (this.here?.root() !== root) return false;
    this.decide('tile');
    return true;
  }

  /** Reports what was left open as faults of the rows, or of the tiles, and goes on from the right one. */
  private decide(wrong: 'row' | 'tile'): void {
    for (const open of this.undecided) {
      if (open.row === open.tile) this.tagFault(open);
      else if (wrong === 'row') this.rowFault(open.position, open.row, open.tile);
      else this.tileFault(open.position, open.row, open.tile);
    }
    this.undecided = [];
    if (wrong === 'tile' && this.here !== null) {
      this.sealed = this.here.copy((level, index, root) => this.tiles.expect(level, index, root));
    }
    this.here = null;
  }

  /** Where neither tree has the signed root, a row whose tag is wrong was replaced together with its hash in the tile. */
  private decideWithoutRoot(): void {
    const replaced = this.undecided.filter(({ row, tile, tag }) => row === tile && tag === 'wrong');
    for (const { position, row } of replaced) {
      const found = `the bytes hash to ${hexOf(row)}, which their tag and the signed root are not of`;
      this.fault('changed-after-sealing', position, 'event.bytes', found);
    }
    this.undecided = this.undecided.filter((open) => !replaced.includes(open));
  }

  /** Checkpoints that do not fit mostly come in a row, up to the end: one fault says so. */
  private badRoot(size: number): void {
    if (this.badRoots === null) this.badRoots = { first: size, last: size, count: 1 };
    else {
      this.badRoots.last = size;
      this.badRoots.count += 1;
    }
  }

  private tellBadRoots(): void {
    if (this.badRoots === null) return;
    const { first, last, count } = this.badRoots;
    this.badRoots = null;
    const many = `none of the ${count} checkpoints from size ${first} to ${last} has the root of the events`;
    this.report({
      code: 'checkpoint-root',
      account: this.account,
      position: placeOf(first),
      ...(count === 1 ? {} : { last: last - 1 }),
      at: `checkpoint of size ${first}`,
      found: count === 1 ? `the first ${first} events have another root` : many,
    });
  }

  /** In the order of `last`: the row that ends here, and those that end where no event of this account is. */
  private async passStreamRows(row: EventRow): Promise<void> {
    for (let at = await this.streamRows.peek(); at !== undefined && at.last <= row.position;) {
      this.passStreamRow(row, at);
      at = await this.streamRows.peek();
    }
  }

  private passStreamRow(row: EventRow, streamRow: StreamRow): void {
    if (streamRow.last > row.position) return;
    this.streamRows.skip();
    // Two streams cannot end at one event.
    const isFirst = streamRow.last === row.position && this.lastStreamRowAt !== row.position;
    if (isFirst) this.lastStreamRowAt = row.position;
    this.streams.row(streamRow, isFirst ? row : undefined);
  }

  private async finish(): Promise<AccountSummary> {
    const rows = this.next;
    const known = await this.knownSize();
    await this.arrive();
    // What is missing at the end is walked through as far as there are hashes of it.
    while (this.next < known && this.tiles.leafAt(this.next) !== null) {
      await this.missing(known);
      await this.arrive();
    }
    this.checkEnds(rows, known);
    this.tellGap();
    this.tellBadRoots();
    if (this.undecided.length > 0) this.decide('row');
    await this.checkTree();
    await this.tiles.finish(Math.max(this.signedSize, this.next));
    await this.checkLateCheckpoints();
    await this.checkStreams();
    for (const { at, found } of this.removals.differing()) {
      this.fault('purge-differs', at, 'event retention.purged', found);
    }
    this.nameStrays();
    await this.context.named.ask();
    const { counts } = this;
    return {
      account: this.account,
      ...counts,
      size: this.next,
      sealed: this.signedSize,
      purgeUnderWay: this.removals.stillThere(),
    };
  }

  /** Holds the end of the rows against all that says where it should be. */
  private checkEnds(rows: number, known: number): void {
    const { row, outside } = this.context;
    const size = this.next;
    if (known > size) {
      this.counts.missing += known - size;
      this.gap =
        this.gap?.last === size - 1 ? { first: this.gap.first, last: known - 1 } : { first: size, last: known - 1 };
    }
    if (row.size !== size) {
      const found =
        row.size === null ? 'there is no such row' : `it says ${row.size} events, and the log ends at ${size}`;
      this.fault('account-head-changed', placeOf(size), 'account_head.size', found);
    }
    const sealed = row.sealed ?? 0;
    if (sealed > rows && !this.removals.any) {
      const found = `a checkpoint covers ${sealed} events, and the rows end at ${rows}`;
      this.fault('log-truncated', rows, 'checkpoint', found);
    }
    const newest = outside.at(-1);
    if (newest !== undefined && newest.size > rows && !this.removals.any) {
      const found = `the file that was signed at ${newest.at} covers ${newest.size} events, and the rows end at ${rows}`;
      this.fault('outside-ahead', rows, 'checkpoints.jsonl', found);
    }
  }

  private async checkTree(): Promise<void> {
    const { tree, sealed } = this.context.row;
    const leaves = await this.tiles.entries();
    const report = (found: string): void => this.fault('tree-changed', null, 'tree', found);
    if (tree === null) {
      if (leaves > 0) report('there is no such row, and there are tiles');
      return;
    }
    if (tree.refused !== null) {
      this.fault('sealing-refused', tree.refused, 'tree.refused', 'the sealer refused the row at this position');
    }
    if (tree.size !== leaves) report(`it says ${tree.size} events are in the tiles, and they hold ${leaves}`);
    if (tree.signed !== (sealed ?? 0)) {
      report(`it says ${tree.signed} events are under a checkpoint, and the newest is of ${sealed ?? 0}`);
    }
  }

  /** Checkpoints of more events than there are: nothing is left to hold them against but their signatures. */
  private async checkLateCheckpoints(): Promise<void> {
    const { context } = this;
    for (let row = await this.checkpoints.next(); row !== undefined; row = await this.checkpoints.next()) {
      this.counts.checkpoints += 1;
      signedRootOf(row, { account: this.account, logId: context.logId, keys: context.keys, onFault: context.onFault });
    }
  }

  private async checkStreams(): Promise<void> {
    for (let row = await this.streamRows.next(); row !== undefined; row = await this.streamRows.next()) {
      this.streams.row(row, undefined);
    }
    if (this.streams.isWhole()) return;
    const { source, onFault } = this.context;
    await findStreamFaults({ account: this.account, source, onFault, purged: this.counts.purged });
  }

  /** A row that stands where it does not belong may be the one that is missing elsewhere: then both are named. */
  private nameStrays(): void {
    const { tagger } = this.context;
    for (const { position, leaf, row } of this.strays) {
      const from = this.missingAt.find(
        (at) => at.leaf === leaf || (row.tag !== null && tagger?.(at.position, leaf) === row.tag),
      );
      const stray = `the row with global position ${row.position}`;
      if (from !== undefined) {
        const found = `${stray} stands at position ${position} and is the event of position ${from.position}`;
        this.fault('position-changed', from.position, 'event.account_position', found);
      } else if (tagger !== null && tagger(position, leaf) !== row.tag) {
        this.fault('forged', position, 'event.tag', `${stray} has no tag for position ${position}`);
      } else {
        this.fault('position-changed', position, 'event.account_position', `${stray} is at no place of this log`);
      }
    }
  }

  private fault(code: FaultCode, position: number | null, at: string, found: string): void {
    this.report({ code, account: this.account, position, at, found });
  }

  private report(fault: Fault): void {
    this.context.onFault(fault);
  }
}

const textOf = ({ prefixed }: EventRow): string => prefixed.toString('utf8', 1);
