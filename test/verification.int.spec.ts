import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { describe, expect, it } from '@jest/globals';
import { createHash } from 'node:crypto';
import { faultMeanings, GrowingTree, inclusionProof, TreeWalk } from '#proof';

/** sigstore's verifier of RFC 6962 proofs: code that shares nothing with this project. */
const { verifyMerkleInclusion } = createRequire(import.meta.url)('@sigstore/verify/dist/tlog/merkle.js') as {
  verifyMerkleInclusion: (entry: unknown, checkpoint: { readonly logSize: bigint; readonly logHash: Buffer }) => void;
};

describe('the tree that the verifier walks', () => {
  it('has the roots that another implementation proves every leaf to be in', () => {
    const walk = new TreeWalk();
    const grown = new GrowingTree();
    const bodies: Buffer[] = [];
    for (let size = 1; size <= 300; size += 1) {
      const body = Buffer.from(`event ${size}`);
      const leaf = createHash('sha256')
        .update(Buffer.concat([Buffer.from([0]), body]))
        .digest();
      bodies.push(body);
      walk.add(leaf.toString('latin1'));
      grown.push(leaf);
      if (![1, 2, 3, 7, 8, 255, 256, 257, 300].includes(size)) continue;
      const tiles = new Map(grown.takeTiles().map((tile) => [`${tile.level}/${tile.index}`, tile.hashes]));
      for (const index of new Set([0, Math.floor(size / 2), size - 1])) {
        const plan = inclusionProof(BigInt(index), BigInt(size));
        const hashes = plan.hashes(({ level, index: at }) => allTiles(tiles, kept, `${level}/${at}`));
        const entry = {
          canonicalizedBody: bodies[index],
          inclusionProof: {
            logIndex: String(index),
            treeSize: String(size),
            hashes,
            rootHash: Buffer.alloc(0),
            checkpoint: undefined,
          },
        };
        const root = Buffer.from(walk.root(), 'latin1');
        expect(() => verifyMerkleInclusion(entry, { logSize: BigInt(size), logHash: root })).not.toThrow();
        const other = Buffer.from(root);
        other[0] = (other[0] ?? 0) ^ 1;
        expect(() => verifyMerkleInclusion(entry, { logSize: BigInt(size), logHash: other })).toThrow();
      }
    }
  });
});

const kept = new Map<string, Uint8Array>();

/** Tiles are handed out as they grow: the newest form of each is kept. */
const allTiles = (news: ReadonlyMap<string, Uint8Array>, all: Map<string, Uint8Array>, name: string): Uint8Array => {
  for (const [place, hashes] of news) all.set(place, hashes);
  const found = all.get(name);
  if (found === undefined) throw new Error(`no tile ${name}`);
  return found;
};

describe('docs/verification.md', () => {
  it('says what every fault means', () => {
    const text = readFileSync('docs/verification.md', 'utf8');
    const documented = [...text.matchAll(/^\| `([a-z-]+)` +\| (.+?) +\|$/gmu)].map(([, code, meaning]) => [
      code,
      meaning,
    ]);
    expect(Object.fromEntries(documented)).toEqual(faultMeanings);
  });
});
