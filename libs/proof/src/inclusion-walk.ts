import { emptyRoot, nodeHash } from './hashes.js';
import type { Node, Span } from './proofs.js';
import { locate, pathSpans, perfectParts } from './proofs.js';
import type { TilePlace, TileSource } from './tiles.js';
import { hashIn, tileHeight, tileWidth, widthOf } from './tiles.js';

/** Fetches tiles before their hashes are asked for. */
export type FetchTiles = (places: readonly TilePlace[]) => Promise<TileSource>;

/** Most tiles that are kept: neighbouring leaves share all but the lowest one. */
const keptTiles = 64;

/**
 * Inclusion proofs of many leaves of one tree, in rising order, at the cost of about one hash each: every tile is
 * fetched once and its subtrees are hashed once. The hashes come in base64, as exports and answers write them.
 */
export class InclusionWalk {
  /** By tile: in-tile height, then place: the hash of a perfect subtree. */
  private readonly tiles = new Map<string, readonly (readonly Buffer[])[]>();
  /** Hashes of what is no perfect subtree: the right edges, which do not change from leaf to leaf. */
  private readonly edges = new Map<string, string>();
  private readonly texts = new WeakMap<Buffer, string>();

  constructor(
    readonly size: bigint,
    private readonly fetch: FetchTiles,
  ) {}

  /** RFC 6962 §2.1.1, PATH(index, D[size]), from the leaf upwards. Throws `RangeError` unless index < size. */
  async proof(index: bigint): Promise<readonly string[]> {
    if (index < 0n || index >= this.size) throw new RangeError('the tree has no such leaf');
    const tile = index / BigInt(tileWidth);
    if ((tile + 1n) * BigInt(tileWidth) > this.size) return this.path(index);
    // Leaves of a full tile share all of their paths that lies above it.
    if (this.above?.tile !== tile) {
      this.above = { tile, path: (await this.path(index)).slice(tileHeight) };
      this.lowest = await this.lowestTile(tile);
    }
    const path: string[] = [];
    for (let height = 0, at = Number(index % BigInt(tileWidth)); height < tileHeight; height += 1, at >>= 1) {
      const sibling = this.lowest[height]?.[at ^ 1];
      if (sibling === undefined) throw new RangeError('a tile has fewer hashes than the tree');
      path.push(this.textOf(sibling));
    }
    path.push(...this.above.path);
    return path;
  }

  private above: { readonly tile: bigint; readonly path: readonly string[] } | null = null;
  private lowest: readonly (readonly Buffer[])[] = [];

  private async lowestTile(index: bigint): Promise<readonly (readonly Buffer[])[]> {
    const place = { level: 0, index };
    return this.tiles.get(tileKey(place)) ?? subtreesOf((await this.fetch([place]))(place), tileWidth);
  }

  private async path(index: bigint): Promise<readonly string[]> {
    const spans = pathSpans(index, { start: 0n, end: this.size });
    await this.prepare(spans);
    return spans.map((span) => this.hashOf(span));
  }

  private async prepare(spans: readonly Span[]): Promise<void> {
    const needed = new Map<string, TilePlace>();
    for (const span of spans) {
      if (this.edges.has(keyOf(span))) continue;
      for (const node of perfectParts(span)) {
        const { place } = locate(node);
        needed.set(tileKey(place), place);
      }
    }
    const missing = [...needed.values()].filter((place) => !this.tiles.has(tileKey(place)));
    if (missing.length === 0) return;
    const source = await this.fetch(missing);
    for (const key of needed.keys()) {
      const kept = this.tiles.get(key);
      if (kept === undefined) continue;
      this.tiles.delete(key);
      this.tiles.set(key, kept);
    }
    for (const key of this.tiles.keys()) {
      if (this.tiles.size < keptTiles) break;
      if (!needed.has(key)) this.tiles.delete(key);
    }
    for (const place of missing) this.tiles.set(tileKey(place), subtreesOf(source(place), widthOf(place, this.size)));
  }

  private hashOf(span: Span): string {
    const parts = perfectParts(span);
    const [only] = parts;
    if (parts.length === 1 && only !== undefined) return this.textOf(this.known(only));
    const known = this.edges.get(keyOf(span));
    if (known !== undefined) return known;
    let hash: Buffer | null = null;
    for (const node of [...parts].reverse()) {
      const left = this.known(node);
      hash = hash === null ? left : nodeHash(left, hash);
    }
    const text = (hash ?? emptyRoot).toString('base64');
    this.edges.set(keyOf(span), text);
    return text;
  }

  private textOf(hash: Buffer): string {
    const known = this.texts.get(hash);
    if (known !== undefined) return known;
    const text = hash.toString('base64');
    this.texts.set(hash, text);
    return text;
  }

  private known(node: Node): Buffer {
    const { place, at, span } = locate(node);
    const hash = this.tiles.get(tileKey(place))?.[node.height % tileHeight]?.[at / span];
    if (hash === undefined) throw new RangeError('a tile has fewer hashes than the tree');
    return hash;
  }
}

const tileKey = ({ level, index }: TilePlace): string => `${String(level)}/${String(index)}`;

const keyOf = ({ start, end }: Span): string => `${String(start)}-${String(end)}`;

/** The perfect subtrees of a tile by their height, each hashed once. */
const subtreesOf = (hashes: Uint8Array, width: number): readonly (readonly Buffer[])[] => {
  const levels: Buffer[][] = [Array.from({ length: width }, (_, at) => Buffer.from(hashIn(hashes, at)))];
  for (let height = 1; height <= tileHeight; height += 1) {
    const below = levels[height - 1] ?? [];
    const level: Buffer[] = [];
    for (let at = 0; at + 1 < below.length; at += 2) {
      const [left, right] = [below[at], below[at + 1]];
      if (left !== undefined && right !== undefined) level.push(nodeHash(left, right));
    }
    levels.push(level);
  }
  return levels;
};
