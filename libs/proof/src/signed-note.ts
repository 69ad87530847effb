import type { KeyObject } from 'node:crypto';
import { createPublicKey, hash, sign, verify } from 'node:crypto';

/** Who may have signed a note: a name and an Ed25519 public key. */
export interface NoteVerifier {
  /** Without spaces and `+`. */
  readonly name: string;
  /** Key ID of C2SP signed-note, 8 hex digits: the name and the key, hashed. */
  readonly id: string;
  readonly publicKey: KeyObject;
}

/** Signs notes. */
export interface NoteSigner extends NoteVerifier {
  readonly privateKey: KeyObject;
}

/** What became of a note when it was opened. */
export type OpenedNote =
  /** `by`: the known keys that signed it, each of them checked. */
  | { readonly kind: 'signed'; readonly text: string; readonly by: readonly NoteVerifier[] }
  /** A known key is named and did not sign this text. */
  | { readonly kind: 'forged'; readonly by: NoteVerifier }
  /** Nobody who is known signed it. */
  | { readonly kind: 'unknown' }
  | { readonly kind: 'malformed' };

const ed25519 = 1;
const maxSignatures = 100;

/** A verifier of a public key; the key ID is SHA-256(name ‖ 0x0A ‖ 0x01 ‖ key), its first 4 bytes. */
export const noteVerifier = (name: string, publicKey: KeyObject): NoteVerifier => {
  if (!isKeyName(name)) throw new RangeError('a key name has no spaces and no plus sign');
  const typed = Buffer.concat([Buffer.from(`${name}\n`), typedKey(publicKey)]);
  return { name, id: hash('sha256', typed, 'hex').slice(0, 8), publicKey };
};

/** A signer with a private key. */
export const noteSigner = (name: string, privateKey: KeyObject): NoteSigner => ({
  ...noteVerifier(name, createPublicKey(privateKey)),
  privateKey,
});

/** The verifier as text, `name+id+base64(0x01 ‖ key)`: what golang.org/x/mod/sumdb/note and its kin read. */
export const verifierKeyText = ({ name, id, publicKey }: NoteVerifier): string =>
  `${name}+${id}+${typedKey(publicKey).toString('base64')}`;

/** Reads `verifierKeyText`; null for what is none, or whose id is not its key's. */
export const readVerifierKey = (text: string): NoteVerifier | null => {
  const [, name, id, base64] = /^([^+]+)\+([\da-f]{8})\+([\d+/=A-Za-z]+)$/u.exec(text) ?? [];
  if (name === undefined || base64 === undefined || !isKeyName(name)) return null;
  const typed = strictBase64(base64);
  if (typed?.length !== 33 || typed[0] !== ed25519) return null;
  const verifier = noteVerifier(name, publicKeyOf(typed.subarray(1)));
  return verifier.id === id ? verifier : null;
};

/** Ed25519 public key of its 32 bytes (RFC 8032). */
export const publicKeyOf = (raw: Uint8Array): KeyObject =>
  createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(raw).toString('base64url') }, format: 'jwk' });

/** The 32 bytes of an Ed25519 public key. */
export const rawPublicKey = (publicKey: KeyObject): Buffer =>
  Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url');

/** A note over `text`, which ends with a newline, with one signature. */
export const signNote = (text: string, signer: NoteSigner): string => {
  if (!isNoteText(text)) throw new RangeError('a note ends with a newline and has no other control characters');
  const signature = sign(null, Buffer.from(text), signer.privateKey);
  const keyed = Buffer.concat([Buffer.from(signer.id, 'hex'), signature]);
  return `${text}\n— ${signer.name} ${keyed.toString('base64')}\n`;
};

/** Opens a note for those who trust `verifiers` (C2SP signed-note). */
export const openNote = (note: string, verifiers: readonly NoteVerifier[]): OpenedNote => {
  const parts = splitNote(note);
  if (parts === null) return { kind: 'malformed' };
  const by: NoteVerifier[] = [];
  for (const { name, id, signature } of parts.signatures) {
    const verifier = verifiers.find((known) => known.name === name && known.id === id);
    if (verifier === undefined || by.includes(verifier)) continue;
    if (!isSignature(parts.text, signature, verifier)) return { kind: 'forged', by: verifier };
    by.push(verifier);
  }
  return by.length === 0 ? { kind: 'unknown' } : { kind: 'signed', text: parts.text, by };
};

interface NoteSignature {
  readonly name: string;
  readonly id: string;
  readonly signature: Buffer;
}

const splitNote = (note: string): { readonly text: string; readonly signatures: readonly NoteSignature[] } | null => {
  const split = note.lastIndexOf('\n\n');
  if (split < 0) return null;
  const text = note.slice(0, split + 1);
  const tail = note.slice(split + 2);
  if (!isNoteText(note) || !isNoteText(text)) return null;
  const lines = tail.slice(0, -1).split('\n');
  if (lines.length > maxSignatures) return null;
  const signatures = lines.map(readSignature);
  return signatures.every((signature) => signature !== null) ? { text, signatures } : null;
};

const readSignature = (line: string): NoteSignature | null => {
  const [, name, base64] = /^— (\S+) (\S+)$/u.exec(line) ?? [];
  if (name === undefined || base64 === undefined || !isKeyName(name)) return null;
  const keyed = strictBase64(base64);
  if (keyed === null || keyed.length < 5) return null;
  return { name, id: keyed.subarray(0, 4).toString('hex'), signature: keyed.subarray(4) };
};

const isSignature = (text: string, signature: Buffer, { publicKey }: NoteVerifier): boolean =>
  signature.length === 64 && verify(null, Buffer.from(text), publicKey, signature);

const isKeyName = (name: string): boolean => name !== '' && name.isWellFormed() && !/[\s+]/u.test(name);

const isNoteText = (text: string): boolean => text.endsWith('\n') && text.isWellFormed() && !controls.test(text);

// Those below U+0020 but the newline.
// eslint-disable-next-line no-control-regex
const controls = /[\0-\t\v-\x1f]/u;

const typedKey = (publicKey: KeyObject): Buffer => Buffer.concat([Buffer.from([ed25519]), rawPublicKey(publicKey)]);

/** Base64 that is written in the one way it may be. */
export const strictBase64 = (text: string): Buffer | null => {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : null;
};
