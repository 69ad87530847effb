import { sign, verify } from 'node:crypto';
import type { JsonObject } from '#record';
import { canonicalJson } from '#record';
import { hashBytes } from './hashes.js';
import type { NoteSigner, NoteVerifier } from './signed-note.js';
import { strictBase64 } from './signed-note.js';

/** An account's tree at a sealing round. */
export interface RoundAccount {
  readonly account: string;
  readonly size: bigint;
  readonly root: Uint8Array;
}

/** What a line of `checkpoints.jsonl` says. */
export interface SealingRound {
  /** Id of the log. */
  readonly log: string;
  /** RFC 3339, by the sealer's clock. */
  readonly at: string;
  /** Every account there is, sorted by its id: one that is missing from a later round has vanished. */
  readonly accounts: readonly RoundAccount[];
  /** The checkpoints that were signed in this round, by account. */
  readonly notes: { readonly [account: string]: string };
}

/** What became of a line when it was read. */
export type ReadRound =
  | { readonly kind: 'signed'; readonly round: SealingRound; readonly by: NoteVerifier }
  | { readonly kind: 'forged'; readonly by: NoteVerifier }
  /** Nobody who is known signed it. */
  | { readonly kind: 'unknown' }
  /** No round at all: a line that was cut off when its writer died, say. */
  | { readonly kind: 'malformed' };

// No checkpoint begins so: there a UUID follows `hookledger/`.
const domain = 'hookledger/sealing-round/v1\n';

/**
 * A sealing round as a line of `checkpoints.jsonl`, without the newline: canonical JSON with `signature`, Ed25519 over
 * the domain line and the canonical JSON without it.
 */
export const roundLine = (round: SealingRound, signer: NoteSigner): string => {
  const said = saidOf(round);
  const signature = sign(null, Buffer.from(domain + canonicalJson(said)), signer.privateKey).toString('base64');
  return canonicalJson({ ...said, signature: { key: signer.id, name: signer.name, value: signature } });
};

const saidOf = ({ log, at, accounts, notes }: SealingRound): JsonObject => ({
  log,
  at,
  accounts: accounts.map(({ account, size, root }) => ({
    account,
    size: String(size),
    root: Buffer.from(root).toString('base64'),
  })),
  notes,
});

/** Reads and checks a line for those who trust `verifiers`. */
export const readRoundLine = (line: string, verifiers: readonly NoteVerifier[]): ReadRound => {
  const parsed = parsedLine(line);
  if (parsed === null) return { kind: 'malformed' };
  const { said, signature } = parsed;
  const by = verifiers.find(({ name, id }) => name === signature.name && id === signature.key);
  if (by === undefined) return { kind: 'unknown' };
  const value = strictBase64(signature.value);
  const text = Buffer.from(domain + canonicalJson(said));
  if (value?.length !== 64 || !verify(null, text, by.publicKey, value)) return { kind: 'forged', by };
  const round = roundOf(said);
  return round === null ? { kind: 'malformed' } : { kind: 'signed', round, by };
};

interface LineSignature {
  readonly key: string;
  readonly name: string;
  readonly value: string;
}

const parsedLine = (line: string): { readonly said: JsonObject; readonly signature: LineSignature } | null => {
  const parsed = jsonOf(line);
  if (!isObject(parsed) || !isObject(parsed.signature)) return null;
  const { signature, ...said } = parsed;
  const { key, name, value } = signature;
  if (typeof key !== 'string' || typeof name !== 'string' || typeof value !== 'string') return null;
  return { said: said as JsonObject, signature: { key, name, value } };
};

const roundOf = ({ log, at, accounts, notes }: JsonObject): SealingRound | null => {
  if (typeof log !== 'string' || typeof at !== 'string' || !Array.isArray(accounts) || !isObject(notes)) return null;
  if (!Object.values(notes).every((note) => typeof note === 'string')) return null;
  const read = (accounts as readonly unknown[]).map(roundAccountOf);
  if (!read.every((account) => account !== null)) return null;
  return { log, at, accounts: read, notes: notes as SealingRound['notes'] };
};

const roundAccountOf = (value: unknown): RoundAccount | null => {
  if (!isObject(value)) return null;
  const { account, size, root } = value;
  if (typeof account !== 'string' || typeof size !== 'string' || typeof root !== 'string') return null;
  const bytes = strictBase64(root);
  if (!/^(?:0|[1-9]\d{0,18})$/u.test(size) || bytes?.length !== hashBytes) return null;
  return { account, size: BigInt(size), root: bytes };
};

const isObject = (value: unknown): value is { readonly [key: string]: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const jsonOf = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
};
