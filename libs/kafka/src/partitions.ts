/**
 * The partition of a key: Kafka's own murmur2, so that producers in other languages with their default partitioner
 * agree. Fixed for good: another choice would put one session into two partitions.
 */
export const partitionOf = (key: string, partitions: number): number =>
  (murmur2(Buffer.from(key)) & 0x7fffffff) % partitions;

const multiplier = 0x5bd1e995;

const murmur2 = (data: Uint8Array): number => {
  const { length } = data;
  const view = new DataView(data.buffer, data.byteOffset, length);
  let hash = 0x9747b28c ^ length;
  const whole = length & ~3;
  for (let at = 0; at < whole; at += 4) {
    let word = Math.imul(view.getInt32(at, true), multiplier);
    word = Math.imul(word ^ (word >>> 24), multiplier);
    hash = Math.imul(hash, multiplier) ^ word;
  }
  if (length > whole) {
    for (let at = length - 1; at >= whole; at -= 1) hash ^= view.getUint8(at) << ((at - whole) * 8);
    hash = Math.imul(hash, multiplier);
  }
  hash = Math.imul(hash ^ (hash >>> 13), multiplier);
  return hash ^ (hash >>> 15);
};
