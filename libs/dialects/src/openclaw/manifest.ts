import type { Json, JsonObject } from '#record';

/** What of `openclaw.plugin.json` counts here (openclaw.md §22). */
export interface Manifest {
  readonly id?: string;
  readonly name?: string;
  readonly version?: string;
  readonly description?: string;
  readonly configSchema?: JsonObject;
  readonly contracts: { readonly trustedToolPolicies: readonly string[] };
}

export type ReadManifest =
  { readonly kind: 'read'; readonly manifest: Manifest } | { readonly kind: 'faulty'; readonly reason: string };

/** Name of the manifest among a plugin's files. */
export const manifestFile = 'openclaw.plugin.json';

const none: Manifest = { contracts: { trustedToolPolicies: [] } };

/** Reads the manifest among the files; a plugin without one has an empty one. */
export const readManifest = (files: ReadonlyMap<string, string>): ReadManifest => {
  const text = files.get(manifestFile);
  if (text === undefined) return { kind: 'read', manifest: none };
  const value = parsed(text);
  if (!isObject(value)) return { kind: 'faulty', reason: 'is not a JSON object' };
  for (const field of ['id', 'name', 'version', 'description']) {
    if (value[field] !== undefined && typeof value[field] !== 'string') {
      return { kind: 'faulty', reason: `has a ${field} that is no string` };
    }
  }
  const { configSchema, contracts } = value;
  if (configSchema !== undefined && !isObject(configSchema)) {
    return { kind: 'faulty', reason: 'has a configSchema that is no object' };
  }
  const policies = isObject(contracts) ? contracts.trustedToolPolicies : undefined;
  return {
    kind: 'read',
    manifest: {
      ...texts(value),
      ...(configSchema === undefined ? {} : { configSchema }),
      contracts: { trustedToolPolicies: strings(policies) },
    },
  };
};

const parsed = (text: string): Json | undefined => {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
};

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const texts = (value: JsonObject): Pick<Manifest, 'id' | 'name' | 'version' | 'description'> =>
  Object.fromEntries(
    ['id', 'name', 'version', 'description'].flatMap((field) =>
      typeof value[field] === 'string' ? [[field, value[field]]] : [],
    ),
  );

const strings = (value: Json | undefined): readonly string[] =>
  Array.isArray(value) ? (value as readonly Json[]).filter((item): item is string => typeof item === 'string') : [];
