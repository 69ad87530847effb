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
  const verifier = readVerifierKey(text.trim());
  if (verifier !== null) return [{ verifier, validFrom: -Infinity, validUntil: null }];
  if (existsSync(text)) return keysIn(text);
  throw new Misuse(`--log-key "${text}" is neither a public key (name+id+base64) nor a file`);
};

/** A key of `log-keys.json`; one that only the file knows any more is without its times. */
interface StoredKey {
  readonly verifierKey: string;
  readonly validFrom?: string;
  readonly validUntil?: string | null;
}

/** Keys of a `log-keys.json`, or of a text with a key on each line. */
const keysIn = (path: string): readonly LogKey[] => {
  const text = readFileSync(path, 'utf8');
  if (!text.trimStart().startsWith('{')) {
    return text
      .split('\n')
      .filter((line) => line.trim() !== '')
      .flatMap(logKeysOf);
  }
  const keys = storedKeys(text).map(keyOf);
  if (keys.length > 0 && keys.every((key) => key !== null)) return keys;
  throw new Failure(`${path} does not hold the public keys of a log.`);
};

const storedKeys = (text: string): readonly StoredKey[] => {
  try {
    const { keys } = JSON.parse(text) as { readonly keys?: unknown };
    return Array.isArray(keys) ? (keys as readonly StoredKey[]) : [];
  } catch {
    return [];
  }
};

const keyOf = ({ verifierKey, validFrom, validUntil }: StoredKey): LogKey | null => {
  const verifier = readVerifierKey(verifierKey);
  if (verifier === null) return null;
  const from = validFrom === undefined ? -Infinity : Date.parse(validFrom);
  return { verifier, validFrom: from, validUntil: typeof validUntil === 'string' ? Date.parse(validUntil) : null };
};
