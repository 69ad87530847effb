import { emptyRoot, nodeHashOf } from './hashes.js';
import type { Hash } from './source.js';

/**
 * The roots of an RFC 6962 tree that is walked leaf by leaf. Keeps one hash for each bit of the size and nothing else.
 * It shares no code with the tree that the sealer grows: two that err alike would not find each other out.
 */
export class TreeWalk {
  private leaves = 0;
  /** Roots of the perfect subtrees that the leaves fall into, largest first, and their heights. */
  private readonly roots: Hash[] = [];
  private readonly heights: number[] = [];

  /** Number of leaves so far. */
  get size(): number {
    return this.leaves;
  }

  /** `whole` is told of each subtree of 256, 65,536, … leaves when it is whole: its level of tiles, index and root. */
  constructor(private readonly whole: (level: number, index: number, root: Hash) => void = () => undefined) {}

  /** Adds the next leaf. */
  add(leaf: Hash): void {
    const { roots, heights } = this;
    let root = leaf;
    let height = 0;
    while (heights.length > 0 && heights[heights.length - 1] === height) {
      heights.pop();
      root = nodeHashOf(roots.pop() ?? emptyRoot, root);
      height += 1;
      if (height % 8 === 0) this.whole(height / 8, Math.floor(this.leaves / 2 ** height), root);
    }
    roots.push(root);
    heights.push(height);
    this.leaves += 1;
  }

  /** The root of the leaves so far. */
  root(): Hash {
    const last = this.roots.length - 1;
    let root = this.roots[last] ?? emptyRoot;
    for (let at = last - 1; at >= 0; at -= 1) root = nodeHashOf(this.roots[at] ?? emptyRoot, root);
    return root;
  }

  /** Another walk that stands where this one does. */
  copy(whole?: (level: number, index: number, root: Hash) => void): TreeWalk {
    const copy = new TreeWalk(whole);
    copy.leaves = this.leaves;
    copy.roots.push(...this.roots);
    copy.heights.push(...this.heights);
    return copy;
  }
}
