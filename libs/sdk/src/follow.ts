import { backoffMs, pause, type Backoff } from './backoff.js';
import type { Connection } from './connection.js';
import type { LedgerEvent } from './events.js';
import { HookledgerProblem, MissingEvents } from './problems.js';
import { SseReader, type SseBlock } from './sse.js';

/** Where subscriptions keep how far they have come. `fileCheckpoints` of `@hookledger/sdk/node` survives the process. */
export interface Checkpoints {
  /** The position up to which everything was dealt with; null: nothing yet. */
  load(name: string): Promise<string | null>;
  /** Resolves once it is kept. */
  save(name: string, position: string): Promise<void>;
}

/** Checkpoints that live as long as their process. */
export const memoryCheckpoints = (): Checkpoints => {
  const positions = new Map<string, string>();
  return {
    load: (name) => Promise.resolve(positions.get(name) ?? null),
    save: (name, position) => Promise.resolve(void positions.set(name, position)),
  };
};

/** Positions that were purged, and the position of the event that says so. */
export interface Purged {
  readonly first: string;
  readonly last: string;
  readonly saidAt: string;
}

export interface FollowOptions {
  /** Only these types. */
  readonly types?: readonly string[];
  readonly sessionId?: string;
  readonly stream?: string;
  /** Where a subscription without a checkpoint begins: at the first event, at the next one, or after a position. */
  readonly from?: 'beginning' | 'now' | { readonly after: string };
  /** `open`: sealed values come opened; the key needs `content: full`. */
  readonly content?: 'open' | 'sealed';
  /** One event at a time, in the log's order. A rejection ends the subscription before the event is put down as done. */
  readonly onEvent: (event: LedgerEvent & { readonly position: string }) => Promise<void> | void;
  /** Without a filter: positions that were purged before this subscription came to them. */
  readonly onPurged?: (purged: Purged) => Promise<void> | void;
  /** Told of every connection that broke, and why; the subscription goes on. */
  readonly onInterrupted?: (cause: unknown) => void;
  /** Default: in memory. */
  readonly checkpoints?: Checkpoints;
  /** The position is saved after this many events, and whenever there is nothing to do. Default: 1. */
  readonly saveEvery?: number;
  readonly signal?: AbortSignal;
}

/** A subscription that runs. */
export interface Subscription extends AsyncDisposable {
  /** Everything up to here was dealt with; null: nothing yet. */
  readonly position: string | null;
  /** Resolves when it was stopped; rejects with what ended it. */
  readonly done: Promise<void>;
  /** Ends it after the event that is being dealt with, with its position saved. */
  stop(): Promise<void>;
}

/** The server says every 15 s that it lives; a connection that says nothing for longer than this is dead, ms. */
const quietMs = 45_000;

const reconnecting: Backoff = { firstMs: 200, mostMs: 15_000 };

/** Most events that the pages before the stream have at once. */
const pageSize = 500;

/** Follows an account's log: every event once, in order, across broken connections and restarts of either side. */
export const follow = (connection: Connection, name: string, options: FollowOptions): Subscription => {
  const following = new Following(connection, name, options);
  const done = following.run();
  // Whoever awaits `done` or `stop` is told; nobody has to.
  done.catch(() => undefined);
  const stop = async (): Promise<void> => {
    following.stop();
    await done;
  };
  return {
    get position() {
      return following.position;
    },
    done,
    stop,
    [Symbol.asyncDispose]: stop,
  };
};

class Following {
  private readonly stopping = new AbortController();
  private readonly checkpoints: Checkpoints;
  private readonly isFiltered: boolean;
  private at: bigint | null = null;
  private savedAt: bigint | null = null;
  private unsaved = 0;
  /** Where events were missing last; the second time at the same place ends it. */
  private missingAt: bigint | null = null;

  constructor(
    private readonly connection: Connection,
    private readonly name: string,
    private readonly options: FollowOptions,
  ) {
    this.checkpoints = options.checkpoints ?? memoryCheckpoints();
    this.isFiltered = [options.types, options.sessionId, options.stream].some((filter) => filter !== undefined);
    const { signal } = options;
    if (signal?.aborted === true) this.stop();
    signal?.addEventListener('abort', () => this.stop(), { once: true });
  }

  get position(): string | null {
    return this.at === null ? null : String(this.at);
  }

  stop(): void {
    this.stopping.abort();
  }

  async run(): Promise<void> {
    const saved = await this.checkpoints.load(this.name);
    this.savedAt = this.at = saved === null ? null : BigInt(saved);
    for (let attempt = 1; !this.isStopped(); attempt += 1) {
      const before = this.at;
      try {
        if (this.at === null) await this.begin();
        else await this.readStream();
      } catch (error) {
        if (this.isStopped()) break;
        if (isFinal(error)) throw error instanceof Ending ? error.cause : error;
        this.options.onInterrupted?.(error);
      } finally {
        await this.save();
      }
      if (this.at !== before) attempt = 1;
      await pause(
        backoffMs({ ...reconnecting, ...this.connection.options.backoff }, attempt, null, Math.random),
        this.stopping.signal,
      ).catch(() => undefined);
    }
    await this.save();
  }

  /** Finds the position to begin at; what stands before it, where that is wanted, comes as a page. */
  private async begin(): Promise<void> {
    const { from = 'beginning' } = this.options;
    if (typeof from === 'object') {
      this.at = BigInt(from.after);
      return;
    }
    const query = from === 'now' ? { limit: 1 } : { ...this.filter(), limit: pageSize };
    const { signal } = this.stopping;
    const reply = await this.connection.send({ method: 'GET', path: 'events', query }, { signal });
    const page = reply.body as EventPage;
    // An empty log has no position to follow from: it is asked again.
    if (page.completeUpTo === null) return;
    if (from === 'beginning') await this.takePage(page);
    if (from === 'now' || page.nextCursor === null) this.at = BigInt(page.completeUpTo);
    await this.save();
  }

  private async takePage({ items, purged = [] }: EventPage): Promise<void> {
    const last = items.at(-1);
    for (const event of items) {
      const gap = this.isFiltered ? [] : purged.filter(({ last: end }) => BigInt(end) < BigInt(event.position));
      for (const range of gap) await this.takePurged(range);
      await this.take(event.position, event);
    }
    if (last === undefined && !this.isFiltered) for (const range of purged) await this.takePurged(range);
  }

  private async readStream(): Promise<void> {
    const connection = new AbortController();
    const abort = (): void => connection.abort();
    this.stopping.signal.addEventListener('abort', abort, { once: true });
    const watch = new Watch(quietMs, abort);
    try {
      const headers = { accept: 'text/event-stream', 'last-event-id': String(this.at) };
      const response = await this.connection.stream('events/stream', this.filter(), headers, connection.signal);
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      const decoder = new TextDecoder();
      const blocks = new SseReader();
      for (;;) {
        watch.start();
        const { done, value } = await reader.read();
        watch.stop();
        if (done) return;
        for (const block of blocks.read(decoder.decode(value, { stream: true }))) {
          if (this.isStopped()) return;
          await this.takeBlock(block);
        }
        if (this.unsaved > 0) await this.save();
      }
    } finally {
      watch.stop();
      this.stopping.signal.removeEventListener('abort', abort);
      // Ends the connection where reading stopped before it did.
      connection.abort();
    }
  }

  private async takeBlock({ event, id, data }: SseBlock): Promise<void> {
    if (id === null || !/^\d{1,18}$/u.test(id)) return;
    if (event === 'purged' && data !== null) {
      await this.takePurged((JSON.parse(data) as { readonly purged: Purged }).purged);
    } else if (data !== null) {
      await this.take(id, JSON.parse(data) as LedgerEvent & { readonly position: string });
    } else if (this.isFiltered) {
      this.reach(BigInt(id));
    }
  }

  private async take(id: string, event: LedgerEvent & { readonly position: string }): Promise<void> {
    const position = BigInt(id);
    // Seen before: a server or something between may send it twice.
    if (this.at !== null && position <= this.at) return;
    const expected = this.at === null ? 0n : this.at + 1n;
    if (!this.isFiltered && position !== expected) this.missing(position);
    await this.callback(() => this.options.onEvent(event));
    this.missingAt = null;
    this.reach(position);
    this.unsaved += 1;
    if (this.unsaved >= (this.options.saveEvery ?? 1)) await this.save();
  }

  private async takePurged(range: Purged): Promise<void> {
    const [first, last] = [BigInt(range.first), BigInt(range.last)];
    if (this.at !== null && last <= this.at) return;
    const expected = this.at === null ? 0n : this.at + 1n;
    if (first > expected) this.missing(first);
    await this.callback(() => this.options.onPurged?.(range));
    this.reach(last);
  }

  /** A connection may have been cut and mended by something between: it is read again before it counts. */
  private missing(found: bigint): never {
    const missing = new MissingEvents(String(this.at ?? 'the beginning'), String(found));
    if (this.missingAt === found) throw new Ending(missing);
    this.missingAt = found;
    throw missing;
  }

  private async callback(call: () => Promise<void> | void): Promise<void> {
    try {
      await call();
    } catch (error) {
      throw new Ending(error);
    }
  }

  private reach(position: bigint): void {
    if (this.at === null || position > this.at) this.at = position;
  }

  private async save(): Promise<void> {
    if (this.at === null || this.at === this.savedAt) return;
    const position = this.at;
    await this.checkpoints.save(this.name, String(position));
    this.savedAt = position;
    this.unsaved = 0;
  }

  private filter(): { readonly [name: string]: string | undefined } {
    const { types, sessionId, stream, content } = this.options;
    return {
      type: types === undefined ? undefined : types.join(','),
      sessionId,
      stream,
      content: content === 'open' ? 'open' : undefined,
    };
  }

  private isStopped(): boolean {
    return this.stopping.signal.aborted;
  }
}

interface EventPage {
  readonly items: readonly (LedgerEvent & { readonly position: string })[];
  readonly purged?: readonly Purged[];
  readonly nextCursor: string | null;
  readonly completeUpTo: string | null;
}

/** What ends a subscription, whatever it is: the caller's own failure, or a hole that stayed. */
class Ending extends Error {
  constructor(override readonly cause: unknown) {
    super('the subscription ends');
  }
}

/** Refusals do not change by asking again; everything else may. */
const isFinal = (error: unknown): boolean =>
  error instanceof Ending ||
  (error instanceof HookledgerProblem &&
    error.status >= 400 &&
    error.status < 500 &&
    error.status !== 408 &&
    error.status !== 429);

/** Calls when nothing happened for a while; stands still while somebody deals with what came. */
class Watch {
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly ms: number,
    private readonly dead: () => void,
  ) {}

  start(): void {
    this.timer = setTimeout(this.dead, this.ms);
  }

  stop(): void {
    clearTimeout(this.timer);
  }
}
