import { createRequire } from 'node:module';
import type * as Kafkajs from 'kafkajs';
import { encodeRecord, groupByPartition } from './kafkajs-records.js';

const load = createRequire(import.meta.url);

/** Puts a function of ours in the place of one of kafkajs', before what uses it is loaded. */
const replace = (path: string, replacement: unknown): void => {
  load(path);
  const found = load.cache[load.resolve(path)];
  if (found !== undefined) found.exports = replacement;
};

/** The parts of kafkajs' queue of requests that are touched here. */
interface RequestQueue {
  readonly pending: readonly unknown[];
  throttledUntil: number;
  throttleCheckTimeoutId: NodeJS.Timeout | null;
  checkPendingRequests(): void;
  scheduleCheckPendingRequests(): void;
}

/**
 * kafkajs 2.2.4 sets a timer after every request, mostly with a negative time, of which Node 24 warns at every connect
 * (tulios/kafkajs#1751). This sets one where something waits or the broker asked for patience, and never a negative
 * one.
 */
const mendTimers = (): void => {
  const { prototype } = load('kafkajs/src/network/requestQueue') as { readonly prototype: RequestQueue };
  prototype.scheduleCheckPendingRequests = function (this: RequestQueue): void {
    const throttledMs = this.throttledUntil - Date.now();
    if (this.throttleCheckTimeoutId !== null || (throttledMs <= 0 && this.pending.length === 0)) return;
    this.throttleCheckTimeoutId = setTimeout(
      () => {
        this.throttleCheckTimeoutId = null;
        this.checkPendingRequests();
      },
      throttledMs > 0 ? throttledMs : pendingMs,
    );
  };
};

/** As kafkajs has it: how soon a request that waits is looked at again, ms. */
const pendingMs = 10;

replace('kafkajs/src/protocol/recordBatch/record/v0/index.js', encodeRecord);
replace('kafkajs/src/producer/groupMessagesPerPartition.js', groupByPartition);
mendTimers();

/**
 * kafkajs 2.2.4, exactly: with what it does slowly or wrongly replaced. The client is no longer changed by its makers,
 * so what is replaced stays what it is; `kafkajs-records.spec.ts` holds ours against theirs.
 */
export const kafkajs = load('kafkajs') as typeof Kafkajs;
