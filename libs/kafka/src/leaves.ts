import type { ConsumedMessage, OutgoingMessage } from './port.js';

/** Leaf hashes of neighbouring events of an account that were purged: what keeps its tree when the events are gone. */
export interface LeavesRecord {
  readonly account: string;
  /** Account position of the first one. */
  readonly first: bigint;
  /** 32 bytes each. */
  readonly hashes: Uint8Array;
}

const keyPrefix = 'leaves/';
const hashBytes = 32;

/** Leaves of one message: 128 KiB of hashes. */
const mostLeaves = 4_096;

/** A message for each 4,096 leaves, for the topic of checkpoints. */
export const encodeLeaves = ({ account, first, hashes }: LeavesRecord): readonly OutgoingMessage[] => {
  const count = Math.ceil(hashes.length / hashBytes / mostLeaves);
  return Array.from({ length: count }, (_, at) => {
    const from = first + BigInt(at * mostLeaves);
    const part = hashes.subarray(at * mostLeaves * hashBytes, (at + 1) * mostLeaves * hashBytes);
    return {
      key: `${keyPrefix}${account}`,
      value: Buffer.from(
        JSON.stringify({ account, first: String(from), hashes: Buffer.from(part).toString('base64'), kind: 'leaves' }),
      ),
      headers: { kind: 'leaves', 'content-type': 'application/json' },
    };
  });
};

/** Reads a message of the checkpoints topic that holds leaves; null for any other. Never throws. */
export const decodeLeaves = ({ value, headers }: ConsumedMessage): LeavesRecord | null => {
  if (headers.kind !== 'leaves' || value === null) return null;
  try {
    const read = JSON.parse(Buffer.from(value).toString('utf8')) as Readonly<Record<string, unknown>>;
    const { account, first, hashes } = read;
    if (typeof account !== 'string' || typeof first !== 'string' || typeof hashes !== 'string') return null;
    const bytes = Buffer.from(hashes, 'base64');
    if (!/^\d{1,18}$/u.test(first) || bytes.length === 0 || bytes.length % hashBytes !== 0) return null;
    return { account, first: BigInt(first), hashes: bytes };
  } catch {
    return null;
  }
};
