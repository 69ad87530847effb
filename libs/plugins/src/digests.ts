import { canonicalJson, digestOf, type Json } from '#record';

/** A plugin's source as it was sent: one file, or several with the one that is entered. */
export type PluginSource =
  { readonly source: string } | { readonly files: { readonly [path: string]: string }; readonly entry: string };

/** SHA-256, hex, of the configuration's canonical JSON: equal for equal values, whatever the key order. */
export const configDigest = (config: Json): string => digestOf(canonicalJson(config));

/** SHA-256, hex, of the canonical JSON of `{ source }` or `{ entry, files }`. */
export const sourceDigest = (source: PluginSource): string => digestOf(canonicalJson(sourceJson(source)));

/** The source as it is sealed. */
export const sourceJson = (source: PluginSource): Json =>
  'source' in source ? { source: source.source } : { entry: source.entry, files: source.files };

/** Bytes of all the source's texts together, as UTF-8. */
export const sourceBytes = (source: PluginSource): number =>
  ('source' in source ? [source.source] : Object.values(source.files)).reduce(
    (sum, text) => sum + Buffer.byteLength(text, 'utf8'),
    0,
  );

/** Most source of one plugin (api.md). */
export const maxSourceBytes = 1024 * 1024;
