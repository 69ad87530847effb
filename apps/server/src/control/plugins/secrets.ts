import { escapePointer } from '#plugins';
import type { Json, JsonObject } from '#record';

/** Where the values of an account's secrets are; set by `PUT …/secrets/{name}`. */
export abstract class SecretValues {
  /** The value in force, with a digest that changes when it does; null when there is none of this name. */
  abstract read(account: string, name: string): Promise<{ readonly value: string; readonly digest: string } | null>;
}

/** The account's secrets as a trial has them: each is set or not as it is, and its name stands in its place. */
export const namesOnly = (secrets: SecretValues): SecretValues => ({
  read: async (account, name) => {
    const found = await secrets.read(account, name);
    return found === null ? null : { value: `[secret ${name}]`, digest: 'name-only' };
  },
});

/** A configuration with its secrets in place, and what the digest of a realm needs to know of them. */
export type ResolvedConfig =
  | { readonly kind: 'resolved'; readonly config: Json; readonly secretDigests: readonly string[] }
  | { readonly kind: 'missing'; readonly names: readonly string[] };

type Read = (name: string) => Promise<{ readonly value: string; readonly digest: string } | null>;

/** The name in `{ "$secret": name }`; null for anything else. */
export const secretName = (value: Json): string | null => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
  const { $secret: name, ...rest } = value as JsonObject;
  return typeof name === 'string' && Object.keys(rest).length === 0 ? name : null;
};

/** Names of the secrets that a configuration refers to, each once. */
export const secretNames = (config: Json): readonly string[] => {
  const names = new Set<string>();
  const visit = (value: Json): void => {
    const name = secretName(value);
    if (name !== null) names.add(name);
    else if (typeof value === 'object' && value !== null) Object.values(value).forEach(visit);
  };
  visit(config);
  return [...names].sort();
};

/** JSON Pointers of a configuration's references to secrets. */
export const secretPointers = (config: Json): readonly string[] => {
  const pointers: string[] = [];
  const visit = (value: Json, pointer: string): void => {
    if (secretName(value) !== null) pointers.push(pointer);
    else if (typeof value === 'object' && value !== null) {
      for (const [key, item] of Object.entries<Json>(value as JsonObject))
        visit(item, `${pointer}/${escapePointer(key)}`);
    }
  };
  visit(config, '');
  return pointers;
};

/** Puts the values in the place of their references. */
export const resolveSecrets = async (config: Json, read: Read): Promise<ResolvedConfig> => {
  const names = secretNames(config);
  if (names.length === 0) return { kind: 'resolved', config, secretDigests: [] };
  const found = await Promise.all(names.map(async (name) => [name, await read(name)] as const));
  const missing = found.flatMap(([name, secret]) => (secret === null ? [name] : []));
  if (missing.length > 0) return { kind: 'missing', names: missing };
  const values = new Map(found.map(([name, secret]) => [name, secret?.value ?? '']));
  return {
    kind: 'resolved',
    config: replaced(config, values),
    secretDigests: found.map(([name, secret]) => `${name}:${secret?.digest ?? ''}`),
  };
};

const replaced = (value: Json, secrets: ReadonlyMap<string, string>): Json => {
  const name = secretName(value);
  if (name !== null) return secrets.get(name) ?? null;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return (value as readonly Json[]).map((item) => replaced(item, secrets));
  // fromEntries defines own keys, so `__proto__` stays a key.
  return Object.fromEntries(Object.entries(value as JsonObject).map(([key, item]) => [key, replaced(item, secrets)]));
};
