import type { Json } from '#record';

/** Bounds of what plugins keep in a session (openclaw.md §14). */
export const jsonLimits = {
  depth: 32,
  nodes: 4096,
  keysPerObject: 512,
  stringUnits: 65_536,
  bytes: 262_144,
} as const;

/** Whether a value is JSON within the bounds. */
export const fitsJsonLimits = (value: unknown): value is Json => {
  let nodes = 0;
  const fits = (item: unknown, depth: number): boolean => {
    nodes += 1;
    if (nodes > jsonLimits.nodes || depth > jsonLimits.depth) return false;
    if (item === null || typeof item === 'boolean') return true;
    if (typeof item === 'string') return item.length <= jsonLimits.stringUnits;
    if (typeof item === 'number') return Number.isFinite(item);
    if (typeof item !== 'object') return false;
    if (Array.isArray(item)) return item.every((one) => fits(one, depth + 1));
    const entries = Object.entries(item);
    return (
      entries.length <= jsonLimits.keysPerObject &&
      entries.every(([key, one]) => key.length <= jsonLimits.stringUnits && fits(one, depth + 1))
    );
  };
  return fits(value, 0) && Buffer.byteLength(JSON.stringify(value), 'utf8') <= jsonLimits.bytes;
};
