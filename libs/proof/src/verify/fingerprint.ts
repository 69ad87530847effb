import { randomBytes } from 'node:crypto';

/**
 * A sum over a multiset of (text, number) in which equal multisets are equal and others differ but for one in 2^60,
 * whatever they are: the key is drawn anew for each run, so nobody can prepare for it. Lets two lists of any length and
 * order be compared without keeping either.
 */
export class Fingerprint {
  private low = 0;
  private high = 0;

  constructor(private readonly key: FingerprintKey) {}

  add(text: string, count: number): void {
    const [low, high] = hashOf(this.key, text, count);
    this.low = (this.low + low) | 0;
    this.high = (this.high + high) | 0;
  }

  remove(text: string, count: number): void {
    const [low, high] = hashOf(this.key, text, count);
    this.low = (this.low - low) | 0;
    this.high = (this.high - high) | 0;
  }

  /** Whether everything that was added was removed. */
  isEmpty(): boolean {
    return this.low === 0 && this.high === 0;
  }
}

/** The secret of one run. */
export type FingerprintKey = readonly [number, number, number, number];

export const newFingerprintKey = (): FingerprintKey => {
  const bytes = randomBytes(16);
  return [bytes.readInt32LE(0), bytes.readInt32LE(4), bytes.readInt32LE(8), bytes.readInt32LE(12)];
};

// Two lanes of a multiplying hash, mixed as MurmurHash3 ends.
const hashOf = (key: FingerprintKey, text: string, count: number): readonly [number, number] => {
  let [low, high] = key;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    low = Math.imul(low ^ unit, 0x9e3779b1);
    low = (low << 13) | (low >>> 19);
    high = Math.imul(high ^ unit, 0x85ebca77);
    high = (high << 17) | (high >>> 15);
  }
  const upper = Math.floor(count / 2 ** 32) | 0;
  low = Math.imul(low ^ (count | 0), 0xc2b2ae3d) ^ key[2];
  high = Math.imul(high ^ upper, 0x27d4eb2f) ^ key[3];
  return [mixed(Math.imul(low ^ high, 0x165667b1) ^ low), mixed(Math.imul(high ^ (count | 0), 0x9e3779b1) ^ low)];
};

const mixed = (value: number): number => {
  let bits = value;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return bits ^ (bits >>> 16);
};
