import { emptyRoot, hashBytes, nodeHash } from './hashes.js';
import type { Tile, TileSource } from './tiles.js';
import { edgeTiles, hashIn, tileHeight, tileWidth } from './tiles.js';

/**
 * An RFC 6962 tree that grows leaf by leaf at the cost of one hash each. It keeps its frontier (the roots of its
 * perfect subtrees, one for each bit of its size) and its right edge of tiles, and nothing of what lies left of them.
 */
export class GrowingTree {
  private leaves = 0;
  /** By height; what stands where the size has no bit is left over and never read. */
  private readonly frontier: Buffer[] = [];
  /** By level: the hashes of the tile at the right edge, fewer than a full one. */
  private readonly edge: EdgeTile[] = [];
  /** Full tiles since the last look. */
  private full: Tile[] = [];
  private readonly touched = new Set<number>();

  /** The tree of `size` leaves, from its tiles. Throws where a tile is missing or too short. */
  static from(size: bigint, tiles: TileSource): GrowingTree {
    const tree = new GrowingTree();
    tree.leaves = Number(size);
    for (const place of edgeTiles(size)) {
      const hashes = tiles(place);
      const kept = tree.edgeAt(place.level);
      kept.index = Number(place.index);
      for (let at = 0; at < place.width; at += 1) kept.push(hashIn(hashes, at));
      tree.foldEdge(place.level, place.width, hashes);
    }
    // Where an edge is empty its place still follows from the size.
    for (let level = 0, entries = tree.leaves; entries > 0; level += 1, entries = Math.floor(entries / tileWidth)) {
      tree.edgeAt(level).index = Math.floor(entries / tileWidth);
    }
    return tree;
  }

  /** Number of leaves. */
  get size(): bigint {
    return BigInt(this.leaves);
  }

  /** Adds the next leaf, by its leaf hash. */
  push(leaf: Uint8Array): void {
    if (leaf.length !== hashBytes) throw new RangeError('a leaf hash has 32 bytes');
    let height = 0;
    let hash: Buffer = Buffer.from(leaf);
    this.pushEntry(0, hash);
    for (let rest = this.leaves; rest % 2 === 1; rest = (rest - 1) / 2) {
      hash = nodeHash(this.frontier[height] ?? emptyRoot, hash);
      height += 1;
      if (height % tileHeight === 0) this.pushEntry(height / tileHeight, hash);
    }
    this.frontier[height] = hash;
    this.leaves += 1;
  }

  /** The root (RFC 6962 §2.1, MTH). */
  root(): Buffer {
    let root: Buffer | null = null;
    for (let height = 0, rest = this.leaves; rest > 0; height += 1, rest = Math.floor(rest / 2)) {
      if (rest % 2 === 0) continue;
      const subtree = this.frontier[height] ?? emptyRoot;
      root = root === null ? subtree : nodeHash(subtree, root);
    }
    return root ?? emptyRoot;
  }

  /** The tiles that changed since this was last asked: full ones, and the right edge as it is now. */
  takeTiles(): readonly Tile[] {
    const tiles = this.full;
    for (const level of this.touched) {
      const edge = this.edgeAt(level);
      if (edge.width > 0) tiles.push({ level, index: BigInt(edge.index), hashes: edge.bytes() });
    }
    this.full = [];
    this.touched.clear();
    return tiles;
  }

  private pushEntry(level: number, hash: Buffer): void {
    const edge = this.edgeAt(level);
    edge.push(hash);
    this.touched.add(level);
    if (edge.width < tileWidth) return;
    this.full.push({ level, index: BigInt(edge.index), hashes: edge.bytes() });
    edge.next();
  }

  private edgeAt(level: number): EdgeTile {
    return (this.edge[level] ??= new EdgeTile());
  }

  /** The perfect subtrees over an edge of `width` entries, largest first. */
  private foldEdge(level: number, width: number, hashes: Uint8Array): void {
    let at = 0;
    for (let height = tileHeight - 1; height >= 0; height -= 1) {
      const span = 2 ** height;
      if ((width & span) === 0) continue;
      this.frontier[level * tileHeight + height] = foldRange(hashes, at, span);
      at += span;
    }
  }
}

/** The tile at the right edge of a level. */
class EdgeTile {
  index = 0;
  width = 0;
  private readonly hashes = Buffer.alloc(tileWidth * hashBytes);

  push(hash: Uint8Array): void {
    this.hashes.set(hash, this.width * hashBytes);
    this.width += 1;
  }

  next(): void {
    this.index += 1;
    this.width = 0;
  }

  bytes(): Buffer {
    return Buffer.from(this.hashes.subarray(0, this.width * hashBytes));
  }
}

/** The root of `span` neighbouring hashes of a tile, a power of two of them. */
export const foldRange = (hashes: Uint8Array, at: number, span: number): Buffer => {
  let row: Uint8Array[] = Array.from({ length: span }, (_, n) => hashIn(hashes, at + n));
  while (row.length > 1) {
    const above: Uint8Array[] = [];
    for (let n = 0; n < row.length; n += 2) above.push(nodeHash(row[n] ?? emptyRoot, row[n + 1] ?? emptyRoot));
    row = above;
  }
  return Buffer.from(row[0] ?? emptyRoot);
};
