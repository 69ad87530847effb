import { createReadStream, existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { LogKey, OutsideLine } from '#proof';
import { readVerifierKey } from '#proof';
import { Failure, Misuse } from '../words.js';

/** What comes from outside of the database. */
export interface OutsideWitnesses {
  /** The checkpoint file; null without one. */
  readonly file: string | null;
  readonly lines: AsyncIterable<OutsideLine> | null;
  readonly logKeys: readonly LogKey[];
}

const checkpointFile = 'checkpoints.jsonl';
const keyFile = 'log-keys.json';

/**
 * Finds what `--checkpoints` (a folder of the sealer's, or its file) and `--log-key` (a key, or a file of keys) name.
 * The checkpoint file is taken up to where it ends now: to be called before the log is opened. Throws `Misuse` for what
 * is not there.
 */
export const findWitnesses = (checkpoints: string | null, keys: readonly string[]): OutsideWitnesses => {
  const given = keys.flatMap(logKeysOf);
  if (checkpoints === null) return { file: null, lines: null, logKeys: given };
  const place = statSync(checkpoints, { throwIfNoEntry: false });
  if (place === undefined) throw new Misuse(`there is no ${checkpoints}`);
  const folder = place.isDirectory() ? checkpoints : null;
  const file = folder === null ? checkpoints : join(folder, checkpointFile);
  const size = statSync(file, { throwIfNoEntry: false })?.size;
  if (size === undefined) throw new Misuse(`there is no ${file}`);
  const beside = folder === null ? null : join(folder, keyFile);
  const found = given.length > 0 || beside === null || !existsSync(beside) ? given : keysIn(beside);
  return { file, lines: linesOf(file, size), logKeys: found };
};

/** Lines of the first `size` bytes of a file. */
async function* linesOf(file: string, size: number): AsyncIterable<OutsideLine> {
  if (size === 0) return;
  let rest: Buffer[] = [];
  const stream = createReadStream(file, { end: size - 1, highWaterMark: 256 * 1024 });
  for await (const piece of stream as AsyncIterable<Buffer>) {
    let from = 0;
    for (let at = piece.indexOf(10); at !== -1; at = piece.indexOf(10, from)) {
      yield { text: Buffer.concat([...rest, piece.subarray(from, at)]).toString('utf8'), ends: true };
      rest = [];
      from = at + 1;
    }
    if (from < piece.length) rest.push(piece.subarray(from));
  }
  if (rest.length > 0) yield { text: Buffer.concat(rest).toString('utf8'), ends: false };
}

const logKeysOf = (text: string): readonly LogKey[] => {
  const key = keyOf({ verifierKey: text.trim() });
  if (key !== null) return [key];
  if (existsSync(text)) return keysIn(text);
  throw new Misuse(`--log-key "${text}" is neither a public key (name+id+base64) nor a file`);
};

/** A key of `log-keys.json`; one that only the file knows any more is without its times. */
interface StoredKey {
  readonly verifierKey?: string;
  readonly validFrom?: string;
  readonly validUntil?: string | null;
}

const keysIn = (path: string): readonly LogKey[] => {
  const keys = readLogKeys(readFileSync(path, 'utf8'));
  if (keys !== null) return keys;
  throw new Failure(`${path} does not hold the public keys of a log.`);
};

/** Keys of a `log-keys.json`, or of a text with a key on each line; null for a text that holds none. */
export const readLogKeys = (text: string): readonly LogKey[] | null => {
  const keys = text.trimStart().startsWith('{')
    ? storedKeys(text).map(keyOf)
    : text
        .split('\n')
        .filter((line) => line.trim() !== '')
        .map((line) => keyOf({ verifierKey: line.trim() }));
  return keys.length > 0 && keys.every((key) => key !== null) ? keys : null;
};

const storedKeys = (text: string): readonly StoredKey[] => {
  try {
    // `log-keys.json`, or the answer of `GET /v1/log-keys` as somebody kept it.
    const { keys, items } = JSON.parse(text) as { readonly keys?: unknown; readonly items?: unknown };
    const found = keys ?? items;
    return Array.isArray(found) ? (found as readonly StoredKey[]) : [];
  } catch {
    return [];
  }
};

const keyOf = ({ verifierKey, validFrom, validUntil }: StoredKey): LogKey | null => {
  const verifier = typeof verifierKey === 'string' ? readVerifierKey(verifierKey) : null;
  if (verifier === null) return null;
  const from = validFrom === undefined ? -Infinity : Date.parse(validFrom);
  return { verifier, validFrom: from, validUntil: typeof validUntil === 'string' ? Date.parse(validUntil) : null };
};
