import { createRequire } from 'node:module';

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
export const mendTimers = (): void => {
  const load = createRequire(import.meta.url);
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
