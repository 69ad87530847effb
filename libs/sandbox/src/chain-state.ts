import { patchOf, withPatch } from './patches.js';
import type { CallAnswer, ChainRun, HandlerOutcome, HandlerRun, RunningChain } from './sandbox.js';

/** One thing that the handler at work asked of the host. */
export interface AskedCall {
  readonly member: string;
  readonly args: string | null;
  /** Absent until the host answered; null where no answer is wanted. */
  answer: CallAnswer | null | undefined;
  /** The beginning of the handler (`ChainState.epoch`) that asked it last, and so waits for it. */
  epoch: number;
}

/** What the API process knows of a chain: enough to go on with it in another child, without running anything twice. */
export class ChainState implements RunningChain {
  readonly run: ChainRun;
  /** Patches of the handlers that reported, JSON texts joined by commas. */
  patches = '';
  /** The first handler that has not reported. */
  next = 0;
  /** Handlers that took their child down with them: not run again. */
  readonly lost = new Map<number, HandlerOutcome>();
  /** Calls of the handler at `next`, kept so that a second beginning of it does not ask the host again. */
  asked: AskedCall[] = [];
  /** Of those, the ones that wait for an answer. */
  open = 0;
  /** How often the handler at `next` began in the present child. */
  start = 0;
  /** Counts beginnings of handlers, in whatever child. */
  epoch = 0;
  dispatches = 0;
  /** A child was lost while several of its handlers were entered together: from now on one by one. */
  isCareful = false;
  /** Takes an answer to whichever child the chain is in by then. */
  answer: (handler: number, call: number, answer: CallAnswer) => void = () => undefined;
  isOver = false;
  readonly #outcomes: HandlerOutcome[] = [];
  readonly #promises: (Promise<HandlerOutcome> | undefined)[] = [];
  readonly #waiting: (((outcome: HandlerOutcome) => void) | undefined)[] = [];
  #revoke: AbortController | null = null;
  #onStop: (() => void) | null = null;

  readonly #stopped = (): void => this.stop();

  constructor(run: ChainRun) {
    this.run = run;
    run.signal?.addEventListener('abort', this.#stopped, { once: true });
  }

  get handler(): HandlerRun | undefined {
    return this.run.handlers[this.next];
  }

  /** Ends when this handler is over. */
  signalOf(handler: number): AbortSignal {
    if (handler !== this.next || this.isOver) return AbortSignal.abort(runOver);
    this.#revoke ??= new AbortController();
    return this.#revoke.signal;
  }

  whenStopped(tell: () => void): void {
    this.#onStop = tell;
  }

  result(index: number): Promise<HandlerOutcome> {
    const known = this.#outcomes[index];
    if (known !== undefined) return Promise.resolve(known);
    if (this.isOver) return Promise.resolve({ kind: 'not_run' });
    this.#promises[index] ??= new Promise((resolve) => {
      this.#waiting[index] = resolve;
    });
    return this.#promises[index];
  }

  stop(): void {
    if (this.isOver) return;
    this.#onStop?.();
    this.end();
  }

  /** The handler at `next` is over with this outcome. */
  report(outcome: HandlerOutcome): void {
    const handler = this.handler;
    if (handler === undefined || this.isOver) return;
    const patch = outcome.kind === 'returned' && handler.advances ? patchOf(outcome.raw) : null;
    if (patch !== null) this.patches = withPatch(this.patches, patch);
    const index = this.next;
    this.next++;
    this.asked = [];
    this.open = 0;
    this.start = 0;
    this.#revokeCalls();
    this.#outcomes[index] = outcome;
    this.#waiting[index]?.(outcome);
    this.#waiting[index] = undefined;
  }

  /** What has not run will not. */
  end(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.run.signal?.removeEventListener('abort', this.#stopped);
    this.#revokeCalls();
    for (const resolve of this.#waiting) resolve?.({ kind: 'not_run' });
  }

  /** No child can be had: every handler from here on counts as crashed. */
  giveUp(): void {
    while (this.handler !== undefined) {
      const stops = this.handler.stopsOn.includes('failed');
      this.report(this.lost.get(this.next) ?? crashedOutcome);
      if (stops) break;
    }
    this.end();
  }

  #revokeCalls(): void {
    this.#revoke?.abort(runOver);
    this.#revoke = null;
  }
}

/** One for all: the one that `abort()` makes by itself carries a stack, which costs more than the rest of the run. */
const runOver = new Error('The handler run is over.');

export const crashedOutcome: HandlerOutcome = {
  kind: 'failed',
  cause: 'crashed',
  detail: 'killed',
  durationMs: 0,
  notes: '',
};
