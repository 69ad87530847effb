import { hashBytes } from './hashes.js';
import type { TreeHead } from './proofs.js';
import type { NoteSigner, NoteVerifier } from './signed-note.js';
import { openNote, signNote, strictBase64 } from './signed-note.js';

/** What a checkpoint says: of which log, how large it was, and its root. */
export interface Checkpoint extends TreeHead {
  readonly origin: string;
}

/** What became of a checkpoint when it was opened. */
export type OpenedCheckpoint =
  | { readonly kind: 'signed'; readonly checkpoint: Checkpoint; readonly by: readonly NoteVerifier[] }
  | { readonly kind: 'forged'; readonly by: NoteVerifier }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'malformed' };

/** Name of a log's keys. */
export const logKeyName = (logId: string): string => `hookledger/${logId}`;

/** Origin line of an account's checkpoints: the account percent-encoded, since an id may hold spaces. */
export const originOf = (logId: string, account: string): string =>
  `hookledger/${logId}/${encodeURIComponent(account)}`;

/** Text of a checkpoint (C2SP tlog-checkpoint): origin, size, root in base64, a line each. */
export const checkpointText = ({ origin, size, root }: Checkpoint): string =>
  `${origin}\n${String(size)}\n${Buffer.from(root).toString('base64')}\n`;

/** A signed checkpoint. */
export const signCheckpoint = (checkpoint: Checkpoint, signer: NoteSigner): string =>
  signNote(checkpointText(checkpoint), signer);

/** Reads a checkpoint's text; null for what is none. Extension lines are allowed and not read. */
export const readCheckpoint = (text: string): Checkpoint | null => {
  const lines = text.split('\n');
  const [origin, size, base64] = lines;
  // A text ends with a newline, and no line of it is empty.
  if (lines.length < 4 || lines.slice(0, -1).includes('') || lines.at(-1) !== '') return null;
  if (origin === undefined || size === undefined || base64 === undefined) return null;
  const root = strictBase64(base64);
  if (!/^(?:0|[1-9]\d{0,18})$/u.test(size) || root?.length !== hashBytes) return null;
  return { origin, size: BigInt(size), root };
};

/** Opens a signed checkpoint for those who trust `verifiers`. */
export const openCheckpoint = (note: string, verifiers: readonly NoteVerifier[]): OpenedCheckpoint => {
  const opened = openNote(note, verifiers);
  if (opened.kind !== 'signed') return opened;
  const checkpoint = readCheckpoint(opened.text);
  return checkpoint === null ? { kind: 'malformed' } : { kind: 'signed', checkpoint, by: opened.by };
};
