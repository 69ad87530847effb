import { readFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { leafHash } from '#record';
import { GrowingTree } from './growing-tree.js';
import { emptyRoot, nodeHash } from './hashes.js';
import { consistencyProof, inclusionProof, rootProof, verifyConsistency, verifyInclusion } from './proofs.js';
import type { Tile, TileSource } from './tiles.js';
import { tilePath, widthOf } from './tiles.js';

interface Vectors {
  readonly roots: { readonly [size: string]: string };
  readonly inclusion: readonly { readonly size: number; readonly index: number; readonly path: readonly string[] }[];
  readonly consistency: readonly { readonly from: number; readonly to: number; readonly path: readonly string[] }[];
  readonly tiles: { readonly size: number; readonly sha256: { readonly [path: string]: string } };
}

/** Made by golang.org/x/mod/sumdb/tlog; see `generate.go` beside it. */
const vectors = JSON.parse(readFileSync(new URL('../vectors/golang-tlog.json', import.meta.url), 'utf8')) as Vectors;

const vectorLeaf = (index: number): Buffer => leafHash(Buffer.from(`leaf ${String(index)}`));

/** Tiles as a table keeps them: the newest of each place. */
class TileTable {
  private readonly tiles = new Map<string, Tile>();

  put(tiles: readonly Tile[]): void {
    for (const tile of tiles) this.tiles.set(`${String(tile.level)}/${String(tile.index)}`, tile);
  }

  all(): readonly Tile[] {
    return [...this.tiles.values()];
  }

  readonly source: TileSource = ({ level, index }) => {
    const tile = this.tiles.get(`${String(level)}/${String(index)}`);
    if (tile === undefined) throw new Error(`no tile ${String(level)}/${String(index)}`);
    return tile.hashes;
  };
}

const grown = (leaves: readonly Buffer[], pieces: readonly number[] = []): { tree: GrowingTree; table: TileTable } => {
  const table = new TileTable();
  let tree = new GrowingTree();
  leaves.forEach((leaf, index) => {
    tree.push(leaf);
    if (!pieces.includes(index)) return;
    // As if the sealer had died here: the rest begins from the tiles.
    table.put(tree.takeTiles());
    tree = GrowingTree.from(tree.size, table.source);
  });
  table.put(tree.takeTiles());
  return { tree, table };
};

/** RFC 6962 §2.1 word for word. */
const mth = (leaves: readonly Buffer[]): Buffer => {
  if (leaves.length === 0) return emptyRoot;
  if (leaves.length === 1) return leaves[0] ?? emptyRoot;
  const k = 2 ** Math.floor(Math.log2(leaves.length - 1));
  return nodeHash(mth(leaves.slice(0, k)), mth(leaves.slice(k)));
};

const inclusionIn = (table: TileTable, index: number, size: number): readonly Buffer[] =>
  inclusionProof(BigInt(index), BigInt(size)).hashes(table.source);
const consistencyIn = (table: TileTable, from: number, to: number): readonly Buffer[] =>
  consistencyProof(BigInt(from), BigInt(to)).hashes(table.source);
const rootIn = (table: TileTable, size: number): Buffer => rootProof(BigInt(size)).hashes(table.source)[0] ?? emptyRoot;

describe('a tree over the leaves of RFC 6962 implementations', () => {
  // The inputs and roots that Certificate Transparency logs are tested with.
  const inputs = ['', '00', '10', '2021', '3031', '40414243', '5051525354555657', '606162636465666768696a6b6c6d6e6f'];
  const leaves = inputs.map((hex) => leafHash(Buffer.from(hex, 'hex')));

  it.each([
    [0, 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
    [1, '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d'],
    [2, 'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125'],
    [3, 'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77'],
    [4, 'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7'],
    [5, '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4'],
    [6, '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef'],
    [7, 'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c'],
    [8, '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328'],
  ])('has the published root at size %d', (size, root) => {
    expect(grown(leaves.slice(0, size)).tree.root().toString('hex')).toBe(root);
  });
});

describe('a tree beside that of golang.org/x/mod/sumdb/tlog', () => {
  const { size } = vectors.tiles;
  const table = new TileTable();
  const rootsOnTheWay = new Map<number, string>();
  const tree = new GrowingTree();
  for (let index = 0; index < size; index += 1) {
    tree.push(vectorLeaf(index));
    if (vectors.roots[String(index + 1)] !== undefined) rootsOnTheWay.set(index + 1, tree.root().toString('base64'));
    if (index % 1000 === 999) table.put(tree.takeTiles());
  }
  table.put(tree.takeTiles());

  it('has the same roots while it grows and when they are asked for afterwards', () => {
    expect(Object.fromEntries(rootsOnTheWay)).toEqual(vectors.roots);
    const later = Object.keys(vectors.roots).map((at) => [at, rootIn(table, Number(at)).toString('base64')]);
    expect(Object.fromEntries(later)).toEqual(vectors.roots);
  });

  it('has the same tiles at the same paths', () => {
    const own = table
      .all()
      .map((tile) => [tilePath(tile, tile.hashes.length / 32), createHash('sha256').update(tile.hashes).digest('hex')]);
    expect(Object.fromEntries(own)).toEqual(vectors.tiles.sha256);
  });

  it.each(vectors.inclusion.map((vector) => [vector.index, vector.size, vector.path] as const))(
    'gives the same inclusion proof of leaf %d at size %d, and takes it',
    (index, at, path) => {
      const own = inclusionIn(table, index, at);
      expect(own.map((hash) => hash.toString('base64'))).toEqual(path);
      expect(verifyInclusion(vectorLeaf(index), BigInt(index), BigInt(at), own, rootIn(table, at))).toBe(true);
    },
  );

  it.each(vectors.consistency.map((vector) => [vector.from, vector.to, vector.path] as const))(
    'gives the same consistency proof from %d to %d, and takes it',
    (from, to, path) => {
      const own = consistencyIn(table, from, to);
      expect(own.map((hash) => hash.toString('base64'))).toEqual(path);
      const [older, newer] = [from, to].map((at) => ({ size: BigInt(at), root: rootIn(table, at) }));
      if (older === undefined || newer === undefined) throw new Error('no heads');
      expect(verifyConsistency(older, newer, own)).toBe(true);
    },
  );
});

describe('a tree', () => {
  const leavesOf = (count: number, seed = 0): readonly Buffer[] =>
    Array.from({ length: count }, (_, n) => leafHash(Buffer.from(`${String(seed)} ${String(n)}`)));

  it('has the root of RFC 6962 and a full set of tiles, however often it was left off and taken up again', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1200 }), fc.array(fc.nat(1200), { maxLength: 4 }), (count, pieces) => {
        const leaves = leavesOf(count);
        const { tree, table } = grown(leaves, pieces);
        expect(tree.size).toBe(BigInt(count));
        expect(tree.root()).toEqual(mth(leaves));
        for (const tile of table.all()) expect(tile.hashes.length / 32).toBe(widthOf(tile, BigInt(count)));
      }),
      { numRuns: 40 },
    );
  });

  it('proves every leaf, and no other leaf, place, size or root by the same path', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 700 }), fc.nat(), fc.nat(), (count, a, b) => {
        const leaves = leavesOf(count);
        const { tree, table } = grown(leaves);
        const index = a % count;
        const path = inclusionIn(table, index, count);
        const leaf = leaves[index] ?? emptyRoot;
        const holds = (of: Buffer, at: bigint, size: bigint, way: readonly Buffer[], root: Buffer): boolean =>
          verifyInclusion(of, at, size, way, root);
        expect(holds(leaf, BigInt(index), tree.size, path, tree.root())).toBe(true);
        expect(holds(nodeHash(leaf, leaf), BigInt(index), tree.size, path, tree.root())).toBe(false);
        const other = (index + 1 + (b % Math.max(1, count - 1))) % count;
        if (other !== index) expect(holds(leaf, BigInt(other), tree.size, path, tree.root())).toBe(false);
        expect(holds(leaf, BigInt(index), tree.size, [...path, leaf], tree.root())).toBe(false);
        if (path.length > 0) {
          expect(holds(leaf, BigInt(index), tree.size, path.slice(1), tree.root())).toBe(false);
          const bent = path.map((hash, n) => (n === b % path.length ? nodeHash(hash, hash) : hash));
          expect(holds(leaf, BigInt(index), tree.size, bent, tree.root())).toBe(false);
        }
        expect(holds(leaf, BigInt(index), tree.size, path, nodeHash(leaf, leaf))).toBe(false);
      }),
      { numRuns: 60 },
    );
  });

  it('is shown to begin with each of its earlier selves, and with no tree that differs', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 700 }), fc.nat(), fc.nat(), (count, a, b) => {
        const leaves = leavesOf(count);
        const { tree, table } = grown(leaves);
        const from = a % (count + 1);
        const older = { size: BigInt(from), root: rootIn(table, from) };
        const newer = { size: tree.size, root: tree.root() };
        const path = consistencyIn(table, from, count);
        expect(verifyConsistency(older, newer, path)).toBe(true);
        const forged = leaves.slice(0, from).map((leaf, n) => (n === b % from ? nodeHash(leaf, leaf) : leaf));
        if (from > 0) expect(verifyConsistency({ ...older, root: mth(forged) }, newer, path)).toBe(false);
        if (path.length > 0) {
          const bent = path.map((hash, n) => (n === b % path.length ? nodeHash(hash, hash) : hash));
          expect(verifyConsistency(older, newer, bent)).toBe(false);
          expect(verifyConsistency(older, newer, path.slice(1))).toBe(false);
        }
        expect(verifyConsistency(older, newer, [...path, newer.root])).toBe(false);
      }),
      { numRuns: 60 },
    );
  });

  it('gives no proof of what it does not have', () => {
    expect(() => inclusionProof(5n, 5n)).toThrow(RangeError);
    expect(() => inclusionProof(-1n, 5n)).toThrow(RangeError);
    expect(() => consistencyProof(6n, 5n)).toThrow(RangeError);
  });

  it('is not made of tiles that are shorter than it', () => {
    const { table } = grown(leavesOf(300));
    expect(() => GrowingTree.from(301n, table.source)).toThrow(RangeError);
    expect(() => inclusionIn(table, 0, 301)).toThrow(RangeError);
  });
});

describe('a tile path', () => {
  it.each([
    [0, 0n, 256, 'tile/0/000'],
    [3, 7n, 12, 'tile/3/007.p/12'],
    [0, 1234067n, 256, 'tile/0/x001/x234/067'],
    [1, 1000n, 1, 'tile/1/x001/000.p/1'],
  ])('of level %d, index %d, width %d is as tlog-tiles says', (level, index, width, path) => {
    expect(tilePath({ level, index }, width)).toBe(path);
  });
});
