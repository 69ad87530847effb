import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { leafHash } from '#record';
import { GrowingTree } from './growing-tree.js';
import { InclusionWalk } from './inclusion-walk.js';
import { inclusionProof } from './proofs.js';
import type { TilePlace, TileSource } from './tiles.js';

const treeOf = (size: number) => {
  const tree = new GrowingTree();
  const tiles = new Map<string, Uint8Array>();
  for (let leaf = 0; leaf < size; leaf += 1) tree.push(leafHash(Buffer.from(String(leaf))));
  for (const { level, index, hashes } of tree.takeTiles()) tiles.set(`${String(level)}/${String(index)}`, hashes);
  const source: TileSource = ({ level, index }) => {
    const hashes = tiles.get(`${String(level)}/${String(index)}`);
    if (hashes === undefined) throw new Error('no such tile');
    return hashes;
  };
  return source;
};

describe('a walk over the leaves of a tree', () => {
  it('gives each leaf the proof that it has by itself, whatever leaves it skips', async () => {
    const largest = 70_000;
    const source = treeOf(largest);
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: largest }),
        fc.uniqueArray(fc.nat(largest - 1), { minLength: 1, maxLength: 40 }),
        async (size, wanted) => {
          const walk = new InclusionWalk(BigInt(size), () => Promise.resolve(source));
          for (const leaf of wanted.filter((index) => index < size).sort((a, b) => a - b)) {
            const alone = inclusionProof(BigInt(leaf), BigInt(size)).hashes(source);
            expect(await walk.proof(BigInt(leaf))).toEqual(alone.map((hash) => hash.toString('base64')));
          }
        },
      ),
      { numRuns: 60 },
    );
  }, 60_000);

  it('fetches each tile once, but the one at the right edge, which every path needs', async () => {
    const size = 30_000n;
    const source = treeOf(Number(size));
    const fetched: TilePlace[] = [];
    const walk = new InclusionWalk(size, (places) => {
      fetched.push(...places);
      return Promise.resolve(source);
    });
    for (let leaf = 0n; leaf < size; leaf += 1n) await walk.proof(leaf);
    const places = fetched.map(({ level, index }) => `${String(level)}/${String(index)}`);
    const again = places.filter((place, at) => places.indexOf(place) !== at);
    expect(again.every((place) => place === '0/117')).toBe(true);
    expect(again.length).toBeLessThan(2);
  });

  it('has no proof of a leaf that the tree does not have', async () => {
    const walk = new InclusionWalk(3n, () => Promise.resolve(treeOf(3)));
    await expect(walk.proof(3n)).rejects.toThrow(RangeError);
    await expect(walk.proof(-1n)).rejects.toThrow(RangeError);
  });
});
