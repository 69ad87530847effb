import { Cursor } from './cursor.js';
import type { OnFault } from './fault.js';
import { hashAt, hexOf } from './hashes.js';
import type { Hash, LogSource, TileExtent, TileRow } from './source.js';

interface Expected {
  readonly level: number;
  readonly index: number;
  readonly root: Hash;
}

const width = 256;

/** The tiles of an account, read in order beside its events: one open tile for each level. */
export class TileReader {
  private readonly levels: { readonly tiles: Cursor<TileRow>; tile: TileRow | null }[] = [];
  private expected: Expected[] = [];
  private extent: TileExtent | null = null;
  private base = 0;
  private leaves: Buffer | null = null;

  /** `sealed`: how many events checkpoints say are in the tiles. */
  constructor(
    private readonly source: LogSource,
    private readonly account: string,
    private readonly sealed: number,
    private readonly onFault: OnFault,
  ) {}

  /** Leaf hashes that there are tiles for, holes included. */
  async entries(): Promise<number> {
    this.extent ??= await this.source.tileExtent(this.account);
    return this.extent.leaves;
  }

  /** The tile that holds a position becomes the open one; a position is never before the one of the last call. */
  async moveTo(position: number): Promise<void> {
    await this.compareExpected();
    const index = Math.floor(position / width);
    if (this.leaves !== null && this.base === index * width) return;
    this.base = index * width;
    const tile = await this.tileAt(0, index);
    this.leaves = tile?.hashes ?? Buffer.alloc(0);
    const found = Math.floor(this.leaves.length / 32);
    const wanted = Math.min(width, this.sealed - this.base);
    if (found < wanted) {
      const first = this.base + found;
      const missing = `it holds ${found} hashes of ${wanted}`;
      this.fault('tile-missing', 0, index, first, this.base + wanted - 1, tile === null ? 'it is not there' : missing);
    }
    if (this.leaves.length % 32 !== 0) {
      this.fault('tile-changed', 0, index, this.base, this.base, 'its length is not one of whole hashes');
    }
  }

  /** What was sealed at a position of the open tile; null for nothing. */
  leafAt(position: number): Hash | null {
    const at = (position - this.base) * 32;
    return this.leaves !== null && at >= 0 && at + 32 <= this.leaves.length ? hashAt(this.leaves, at) : null;
  }

  /** The root of a subtree that its entry in a tile must be equal to; compared when the walk comes to wait anyway. */
  expect(level: number, index: number, root: Hash): void {
    this.expected.push({ level, index, root });
  }

  /** Once all events have passed: nothing may be left over. */
  async finish(size: number): Promise<void> {
    await this.compareExpected();
    const { levels } = (this.extent ??= await this.source.tileExtent(this.account));
    for (let level = 0; level < levels; level += 1) {
      const span = width ** level;
      const entries = Math.floor(size / span);
      for (let tile = await this.lastOf(level); tile !== undefined; tile = await this.cursorOf(level).tiles.next()) {
        const end = tile.index * width + Math.ceil(tile.hashes.length / 32);
        if (end <= entries) continue;
        const first = Math.max(tile.index * width, entries) * span;
        this.fault('tile-unexpected', level, tile.index, first, first, `it holds more than ${size} events give`);
      }
    }
  }

  /** The open tile of a level, which may be the last one that there is any use for. */
  private lastOf(level: number): Promise<TileRow | undefined> {
    const { tile, tiles } = this.cursorOf(level);
    return tile === null ? tiles.next() : Promise.resolve(tile);
  }

  private async compareExpected(): Promise<void> {
    if (this.expected.length === 0) return;
    const { expected } = this;
    this.expected = [];
    for (const { level, index, root } of expected) await this.compare(level, index, root);
  }

  private async compare(level: number, index: number, root: Hash): Promise<void> {
    const span = width ** level;
    const [first, last] = [index * span, (index + 1) * span - 1];
    if (last >= this.sealed && last >= (await this.entries())) return;
    const tile = await this.tileAt(level, Math.floor(index / width));
    const at = (index % width) * 32;
    if (tile === null || at + 32 > tile.hashes.length) {
      if (last >= this.sealed) return;
      this.fault(
        'tile-missing',
        level,
        Math.floor(index / width),
        first,
        last,
        'the hash over these events is not there',
      );
      return;
    }
    const found = hashAt(tile.hashes, at);
    if (found === root) return;
    const words = `entry ${index % width} is ${hexOf(found)}, and the events give ${hexOf(root)}`;
    this.fault('tile-changed', level, Math.floor(index / width), first, last, words);
  }

  private cursorOf(level: number): { readonly tiles: Cursor<TileRow>; tile: TileRow | null } {
    return (this.levels[level] ??= { tiles: new Cursor(this.source.tiles(this.account, level)), tile: null });
  }

  private async tileAt(level: number, index: number): Promise<TileRow | null> {
    const open = this.cursorOf(level);
    if (open.tile !== null && open.tile.index >= index) return open.tile.index === index ? open.tile : null;
    let next = await open.tiles.peek();
    while (next !== undefined && next.index <= index) {
      open.tiles.skip();
      open.tile = next;
      next = await open.tiles.peek();
    }
    return open.tile?.index === index ? open.tile : null;
  }

  private fault(
    code: 'tile-missing' | 'tile-changed' | 'tile-unexpected',
    level: number,
    index: number,
    first: number,
    last: number,
    found: string,
  ): void {
    const range = first === last ? {} : { last };
    this.onFault({ code, account: this.account, position: first, ...range, at: `tile ${level}/${index}`, found });
  }
}
