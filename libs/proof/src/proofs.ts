import { foldRange } from './growing-tree.js';
import { emptyRoot, nodeHash, sameBytes } from './hashes.js';
import type { TilePlace, TileSource } from './tiles.js';
import { tileHeight, tileWidth } from './tiles.js';

/** The leaves `[start, end)`, whose subtree's hash is wanted. */
export interface Span {
  readonly start: bigint;
  readonly end: bigint;
}

/** A perfect subtree: the `index`-th of its height. */
export interface Node {
  readonly height: number;
  readonly index: bigint;
}

/**
 * Hashes that a proof is made of, and the tiles they come from: fetch `tiles` first, then ask for `hashes`. Made by
 * `inclusionProof`, `consistencyProof` and `rootProof`.
 */
export interface ProofPlan {
  readonly tiles: readonly TilePlace[];
  hashes(source: TileSource): readonly Buffer[];
}

/** RFC 6962 §2.1.1, PATH(index, D[size]). Throws `RangeError` unless index < size. */
export const inclusionProof = (index: bigint, size: bigint): ProofPlan => {
  if (index < 0n || index >= size) throw new RangeError('the tree has no such leaf');
  return planOf(pathSpans(index, { start: 0n, end: size }));
};

/** RFC 6962 §2.1.2, PROOF(from, D[to]). Empty when they are equal or `from` is 0. Throws `RangeError` if from > to. */
export const consistencyProof = (from: bigint, to: bigint): ProofPlan => {
  if (from < 0n || from > to) throw new RangeError('the older tree is the larger one');
  return planOf(from === 0n ? [] : subproofSpans(from, { start: 0n, end: to }, 'whole'));
};

/** The root of the tree of `size` leaves: the only hash of this plan. */
export const rootProof = (size: bigint): ProofPlan => planOf([{ start: 0n, end: size }]);

/** The hash of a leaf: the only hash of this plan. */
export const leafProof = (index: bigint): ProofPlan => planOf([{ start: index, end: index + 1n }]);

const planOf = (spans: readonly Span[]): ProofPlan => {
  const parts = spans.map(perfectParts);
  const places = new Map<string, TilePlace>();
  for (const node of parts.flat()) {
    const { place } = locate(node);
    places.set(`${String(place.level)}/${String(place.index)}`, place);
  }
  return {
    tiles: [...places.values()],
    hashes: (source) => parts.map((nodes) => spanHash(nodes, source)),
  };
};

/** From the leaf upwards, as the proof is written. */
export const pathSpans = (index: bigint, { start, end }: Span): readonly Span[] => {
  if (end - start === 1n) return [];
  const middle = start + splitOf(end - start);
  return index < middle
    ? [...pathSpans(index, { start, end: middle }), { start: middle, end }]
    : [...pathSpans(index, { start: middle, end }), { start, end: middle }];
};

/** `whole`: the older tree is exactly what lies left in this subtree, and its root is known to the verifier. */
const subproofSpans = (from: bigint, { start, end }: Span, known: 'whole' | 'part'): readonly Span[] => {
  if (from === end) return known === 'whole' ? [] : [{ start, end }];
  const middle = start + splitOf(end - start);
  return from <= middle
    ? [...subproofSpans(from, { start, end: middle }, known), { start: middle, end }]
    : [...subproofSpans(from, { start: middle, end }, 'part'), { start, end: middle }];
};

/** RFC 6962 §2.1: the largest power of two smaller than n. */
const splitOf = (n: bigint): bigint => 1n << BigInt((n - 1n).toString(2).length - 1);

/** A span of the tree as perfect subtrees, left to right. Spans of RFC 6962 begin where their largest one may. */
export const perfectParts = ({ start, end }: Span): readonly Node[] => {
  const parts: Node[] = [];
  for (let at = start; at < end;) {
    const height = (end - at).toString(2).length - 1;
    parts.push({ height, index: at >> BigInt(height) });
    at += 1n << BigInt(height);
  }
  return parts;
};

export const locate = ({
  height,
  index,
}: Node): { readonly place: TilePlace; readonly at: number; readonly span: number } => {
  const level = Math.floor(height / tileHeight);
  const span = 2 ** (height % tileHeight);
  const first = index * BigInt(span);
  return { place: { level, index: first / BigInt(tileWidth) }, at: Number(first % BigInt(tileWidth)), span };
};

const spanHash = (nodes: readonly Node[], source: TileSource): Buffer => {
  let hash: Buffer | null = null;
  for (const node of [...nodes].reverse()) {
    const { place, at, span } = locate(node);
    const subtree = foldRange(source(place), at, span);
    hash = hash === null ? subtree : nodeHash(subtree, hash);
  }
  return hash ?? emptyRoot;
};

/** RFC 9162 §2.1.3.2: whether the path leads from the leaf hash at `index` to the root of `size` leaves. */
export const verifyInclusion = (
  leaf: Uint8Array,
  index: bigint,
  size: bigint,
  path: readonly Uint8Array[],
  root: Uint8Array,
): boolean => {
  if (index < 0n || index >= size) return false;
  let [fn, sn] = [index, size - 1n];
  let hash: Uint8Array = leaf;
  for (const step of path) {
    if (sn === 0n) return false;
    if (isOdd(fn) || fn === sn) {
      hash = nodeHash(step, hash);
      while (!isOdd(fn) && fn !== 0n) [fn, sn] = [fn >> 1n, sn >> 1n];
    } else {
      hash = nodeHash(hash, step);
    }
    [fn, sn] = [fn >> 1n, sn >> 1n];
  }
  return sn === 0n && sameBytes(hash, root);
};

/** A tree's head as proofs speak of it. */
export interface TreeHead {
  readonly size: bigint;
  readonly root: Uint8Array;
}

/** RFC 9162 §2.1.4.2: whether the newer tree begins with the older one. */
export const verifyConsistency = (from: TreeHead, to: TreeHead, path: readonly Uint8Array[]): boolean => {
  if (from.size > to.size) return false;
  if (from.size === to.size) return path.length === 0 && sameBytes(from.root, to.root);
  if (from.size === 0n) return path.length === 0 && sameBytes(from.root, emptyRoot);
  const [first, ...rest] = isPowerOfTwo(from.size) ? [from.root, ...path] : path;
  if (first === undefined) return false;
  let [fn, sn] = [from.size - 1n, to.size - 1n];
  while (isOdd(fn)) [fn, sn] = [fn >> 1n, sn >> 1n];
  let [older, newer] = [first, first];
  for (const step of rest) {
    if (sn === 0n) return false;
    if (isOdd(fn) || fn === sn) {
      older = nodeHash(step, older);
      newer = nodeHash(step, newer);
      while (!isOdd(fn) && fn !== 0n) [fn, sn] = [fn >> 1n, sn >> 1n];
    } else {
      newer = nodeHash(newer, step);
    }
    [fn, sn] = [fn >> 1n, sn >> 1n];
  }
  return sn === 0n && sameBytes(older, from.root) && sameBytes(newer, to.root);
};

const isOdd = (n: bigint): boolean => (n & 1n) === 1n;
const isPowerOfTwo = (n: bigint): boolean => (n & (n - 1n)) === 0n;
