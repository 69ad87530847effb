import { hashBytes } from './hashes.js';

/** Hashes in a full tile (C2SP tlog-tiles): the tree is cut into tiles of height 8. */
export const tileWidth = 256;
/** Levels of the tree in one level of tiles. */
export const tileHeight = 8;

/** Where a tile stands. Level 0 holds leaf hashes; an entry of level n is the root of a full tile of level n - 1. */
export interface TilePlace {
  readonly level: number;
  readonly index: bigint;
}

/** A tile: 1 to 256 hashes, one after another. */
export interface Tile extends TilePlace {
  readonly hashes: Uint8Array;
}

/** Gives the hashes of a tile, at least as many as the tree of the asked size has there. Throws where there is none. */
export type TileSource = (place: TilePlace) => Uint8Array;

/** How many entries a level of tiles has in a tree of `size` leaves. */
export const entriesAt = (level: number, size: bigint): bigint => size >> BigInt(level * tileHeight);

/** How many hashes a tile has in a tree of `size` leaves: 256, or fewer at the right edge, or none. */
export const widthOf = ({ level, index }: TilePlace, size: bigint): number => {
  const left = entriesAt(level, size) - index * BigInt(tileWidth);
  if (left <= 0n) return 0;
  return left > BigInt(tileWidth) ? tileWidth : Number(left);
};

/** The tiles at the right edge of a tree of `size` leaves that are not full, lowest level first. */
export const edgeTiles = (size: bigint): readonly (TilePlace & { readonly width: number })[] => {
  const places: (TilePlace & { readonly width: number })[] = [];
  for (let level = 0; entriesAt(level, size) > 0n; level += 1) {
    const width = Number(entriesAt(level, size) % BigInt(tileWidth));
    if (width > 0) places.push({ level, index: entriesAt(level, size) / BigInt(tileWidth), width });
  }
  return places;
};

/** A tile's path as C2SP tlog-tiles writes it: `tile/0/x001/x234/067`, with `.p/W` where it is not full. */
export const tilePath = ({ level, index }: TilePlace, width: number): string => {
  const groups: string[] = [];
  for (let rest = index, first = true; first || rest > 0n; rest /= 1000n, first = false) {
    const digits = String(rest % 1000n).padStart(3, '0');
    groups.unshift(first ? digits : `x${digits}`);
  }
  return `tile/${String(level)}/${groups.join('/')}${width < tileWidth ? `.p/${String(width)}` : ''}`;
};

/** The hash at `at` of a tile. Throws where the tile has fewer. */
export const hashIn = (hashes: Uint8Array, at: number): Uint8Array => {
  const found = hashes.subarray(at * hashBytes, (at + 1) * hashBytes);
  if (found.length !== hashBytes) throw new RangeError('a tile has fewer hashes than the tree');
  return found;
};
