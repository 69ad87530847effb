import { LRUCache } from 'lru-cache';

/**
 * Where accounts' logs end, as this process believes: a row's tag names its position, and positions are known only at
 * the commit. So a batch is tagged for the sizes that are known and what is on its way before it; the database checks
 * them under the head's lock.
 */
export interface AccountSizes {
  /** A batch with so many events for these accounts goes out behind those that are on their way. */
  depart(events: ReadonlyMap<string, number>): Flight;
  /** An account's log was seen to have this size. */
  reached(account: string, size: bigint): void;
  /** Whether others write to the same accounts, so that it is better to look before a batch is tagged. */
  contended(): boolean;
}

/** A batch on its way. */
export interface Flight {
  /** Where the batch's part of an account is expected to begin. */
  readonly sizeOf: (account: string) => bigint;
  /** These sizes were read under the head's lock. */
  looked(sizes: ReadonlyMap<string, bigint>): void;
  /**
   * Nothing was written: these accounts had other sizes. Resolves when it makes sense to try again: at once, or when
   * the batches that it overtook have come through.
   */
  missed(sizes: ReadonlyMap<string, bigint>): Promise<void>;
  /** It was answered, or failed. */
  land(): void;
}

/** How many batches look first after one that others were faster than. */
const wary = 16;

/** See `AccountSizes`. */
export const accountSizes = (): AccountSizes => {
  const known = new LRUCache<string, bigint>({ max: 20_000 });
  const flights: { readonly events: ReadonlyMap<string, number>; readonly landed: Promise<void> }[] = [];
  let looksLeft = 0;

  const reached = (account: string, size: bigint): void => {
    // Answers may come in another order than the commits that they are of.
    if (size > (known.get(account) ?? -1n)) known.set(account, size);
  };

  return {
    reached,
    contended: () => looksLeft > 0,
    depart: (events) => {
      const ahead = [...flights];
      const expected = new Map<string, bigint>();
      for (const account of events.keys()) {
        const before = ahead.reduce((sum, flight) => sum + (flight.events.get(account) ?? 0), 0);
        expected.set(account, (known.get(account) ?? 0n) + BigInt(before));
      }
      const unknown = new Set([...events.keys()].filter((account) => !known.has(account)));
      let resolve = (): void => undefined;
      const landed = new Promise<void>((done) => (resolve = done));
      const flight = { events, landed };
      flights.push(flight);
      const land = (): void => {
        const at = flights.indexOf(flight);
        if (at >= 0) flights.splice(at, 1);
        resolve();
      };
      return {
        sizeOf: (account) => expected.get(account) ?? 0n,
        looked: (sizes) => {
          const asExpected = [...sizes].every(([account, size]) => expected.get(account) === size);
          looksLeft = asExpected ? Math.max(0, looksLeft - 1) : wary;
          // The truth, also where it is less than what was believed: a database may have failed over to an older copy.
          for (const [account, size] of sizes) known.set(account, size);
        },
        missed: async (sizes) => {
          for (const [account, size] of sizes) {
            if (size > (expected.get(account) ?? 0n) && !unknown.has(account)) looksLeft = wary;
            if (ahead.length === 0) known.set(account, size);
            else reached(account, size);
          }
          // Those ahead may wait for this one's connection: it must be out of their way first.
          land();
          const overtook = [...sizes].some(([account, size]) => size < (expected.get(account) ?? 0n));
          if (overtook) await Promise.all(ahead.map((other) => other.landed));
        },
        land,
      };
    },
  };
};
