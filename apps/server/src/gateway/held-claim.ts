import { LogBusy, type Claim, type CommandResult, type EventStore } from '#event-store';
import { digestOf } from '#record';

/** How long a claim holds without a sign of life, ms; a retry after a crash waits as long. */
const leaseMs = 6_000;

/** What a claim is for. */
interface Wanted {
  readonly account: string;
  /** Never that of a request: those are visible ASCII without blanks. */
  readonly key: string;
  /** Handed to a later attempt as the one before it. */
  readonly invocationId: string | null;
}

type Held = Extract<Claim, { kind: 'claimed' }>;

/** Work under a claim came to an end, or it was done before. */
export type UnderClaim<T> =
  { readonly kind: 'ran'; readonly answer: T } | { readonly kind: 'done'; readonly result: CommandResult };

/**
 * Does something once, over all replicas: others wait for the claim. The work ends the claim in the commit of its
 * events; when it fails, the next attempt follows at once and is told of this one.
 */
export const onceUnderClaim = async <T>(
  store: EventStore,
  wanted: Wanted,
  work: (claim: Held) => Promise<T>,
): Promise<UnderClaim<T>> => {
  const claim = await claimed(store, wanted);
  if (claim.kind === 'done') return { kind: 'done', result: claim.result };
  const { account, key } = wanted;
  try {
    const answer = await renewing(store, wanted, claim, work);
    // Work that found nothing to do ended no claim; of one that was ended nothing is taken back.
    await store.releaseClaim(account, key, claim.token).catch(() => undefined);
    return { kind: 'ran', answer };
  } catch (error) {
    // Not given up, which would forget the attempt: its lease ends now. When it was lost, nothing changes.
    await store.renewClaim(account, key, claim.token, 0).catch(() => undefined);
    throw error;
  }
};

/**
 * Work that only one does at a time, over all replicas. Null when another had the turn for `waitMs`: look again whether
 * there is anything left to do. It orders who comes first; what must hold, the log's versions hold.
 */
export const inTurn = async <T>(
  store: EventStore,
  wanted: Wanted,
  waitMs: number,
  work: () => Promise<T>,
): Promise<T | null> => {
  const claim = await claimed(store, wanted, waitMs).catch((error: unknown) => {
    if (error instanceof LogBusy) return null;
    throw error;
  });
  if (claim === null) return null;
  if (claim.kind === 'done') throw new Error(`${wanted.key} was ended as if it were a command`);
  try {
    return await renewing(store, wanted, claim, work);
  } finally {
    await store.releaseClaim(wanted.account, wanted.key, claim.token).catch(() => undefined);
  }
};

const claimed = async (
  store: EventStore,
  { account, key, invocationId }: Wanted,
  waitMs?: number,
): Promise<Exclude<Claim, { kind: 'mismatch' }>> => {
  const requestDigest = digestOf(key);
  const waits = waitMs === undefined ? {} : { waitMs };
  const claim = await store.claim({ account, key, requestDigest, invocationId, leaseMs, ...waits });
  if (claim.kind === 'mismatch') throw new Error(`claim ${key} belongs to something else`);
  return claim;
};

const renewing = async <T>(
  store: EventStore,
  { account, key }: Wanted,
  claim: Held,
  work: (claim: Held) => Promise<T>,
): Promise<T> => {
  const renewal = setInterval(() => {
    // A lease that was lost shows when the append is refused.
    store.renewClaim(account, key, claim.token, leaseMs).catch(() => undefined);
  }, leaseMs / 3);
  try {
    return await work(claim);
  } finally {
    clearInterval(renewal);
  }
};
