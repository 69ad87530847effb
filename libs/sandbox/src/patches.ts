/** Patches that are longer together are made into one, so that many large ones do not add up. */
const COMPACT_FROM = 4 * 1024 * 1024;

/**
 * The patch in a raw result `~{…}\n…`, JSON text; null where the result has none.
 */
export const patchOf = (raw: string): string | null => {
  if (!raw.startsWith('~')) return null;
  const end = raw.indexOf('\n');
  return end < 0 ? raw.slice(1) : raw.slice(1, end);
};

/** Adds a patch to those before it: JSON texts of objects joined by commas, to be applied in order. */
export const withPatch = (patches: string, patch: string): string => {
  if (patches === '') return patch;
  const joined = `${patches},${patch}`;
  return joined.length < COMPACT_FROM ? joined : compact(joined);
};

/** One patch that does what these do: own keys in the order of their first coming, each with its last value. */
const compact = (patches: string): string => {
  const values = new Map<string, string>();
  for (const patch of JSON.parse(`[${patches}]`) as Record<string, unknown>[]) {
    for (const key of Object.keys(patch)) values.set(key, JSON.stringify(patch[key]));
  }
  return `{${[...values].map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(',')}}`;
};
