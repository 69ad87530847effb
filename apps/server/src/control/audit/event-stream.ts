import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { followAccount, type LiveQuery, type PurgedRange } from '#audit';
import type { EventStore, StoredEvent } from '#event-store';
import { hashKey, type KeyRing, type PlatformRequest } from '#platform';

/** A quiet connection says this often that it lives, ms. */
const heartbeatMs = 15_000;

/** How often the key is looked at, ms: one that is revoked reads on for no longer. */
const keyCheckMs = 1_000;

/** A reader that takes nothing for this long, while something waits for it, is cut, ms. */
const slowestMs = 60_000;

/**
 * An account's log as server-sent events. `id` is the account position, so that a reader who comes back with
 * `Last-Event-ID` misses nothing and sees nothing twice. A slow reader waits in the log: one step of events is in
 * memory for it at a time. The stream ends when the program stops and when the key is revoked or expires.
 */
export class EventStream {
  private readonly ending = new AbortController();
  /** Since when a piece waits for the reader. */
  private waitingSince: number | null = null;
  /** Position up to which everything was given, or named as purged. */
  private at: bigint;

  constructor(
    private readonly store: EventStore,
    private readonly keys: KeyRing,
    private readonly stopping: AbortSignal,
    private readonly query: LiveQuery,
    /** What was purged between two positions. */
    private readonly purged: (first: bigint, last: bigint) => Promise<readonly PurgedRange[]>,
  ) {
    this.at = query.after;
  }

  /** Begins the answer; `texts` gives the JSON of events. */
  send(
    request: PlatformRequest,
    reply: FastifyReply,
    texts: (events: readonly StoredEvent[]) => Promise<readonly string[]>,
  ): void {
    const source = Readable.from(this.lines(texts), { objectMode: false, highWaterMark: 1 });
    const watch = setInterval(() => void this.look(request, source), keyCheckMs);
    const end = (): void => this.ending.abort();
    this.stopping.addEventListener('abort', end, { once: true });
    if (this.stopping.aborted) end();
    request.raw.once('close', end);
    source.once('close', () => {
      clearInterval(watch);
      this.stopping.removeEventListener('abort', end);
      end();
    });
    void reply
      .header('content-type', 'text/event-stream; charset=utf-8')
      .header('cache-control', 'no-store')
      .header('x-accel-buffering', 'no')
      .send(source);
  }

  private async *lines(texts: (events: readonly StoredEvent[]) => Promise<readonly string[]>): AsyncGenerator<string> {
    yield* this.handOver('retry: 1000\n: the log from here on\n\n');
    for await (const step of followAccount(this.store, this.query, this.ending.signal, heartbeatMs)) {
      if (step.kind === 'nothing') {
        // An id without data moves Last-Event-ID on, so that a filtered reader does not come back to the beginning.
        yield* this.handOver(step.upTo < 0n ? ': quiet\n\n' : `: quiet\nid: ${String(step.upTo)}\n\n`);
        continue;
      }
      const datas = await texts(step.events);
      for (const [index, { position }] of step.events.entries()) {
        yield* this.gap(position);
        yield* this.handOver(`id: ${String(position)}\ndata: ${datas[index] ?? ''}\n\n`);
        if (this.ending.signal.aborted) return;
      }
    }
    yield ': the end\n\n';
  }

  /** Positions that are passed over, where nothing is filtered out: what was purged is said to be. */
  private async *gap(position: bigint): AsyncGenerator<string> {
    const { types, sessionId, stream } = this.query;
    const isFiltered = types !== undefined || sessionId !== undefined || stream !== undefined;
    const first = this.at + 1n;
    this.at = position;
    if (isFiltered || first >= position) return;
    for (const range of await this.purged(first, position - 1n)) {
      yield* this.handOver(`event: purged\nid: ${range.last}\ndata: ${JSON.stringify({ purged: range })}\n\n`);
    }
  }

  /** Gives one piece; what comes after it runs when the reader asks for more. */
  private *handOver(text: string): Generator<string> {
    this.waitingSince = Date.now();
    yield text;
    this.waitingSince = null;
  }

  private async look(request: PlatformRequest, source: Readable): Promise<void> {
    if (this.waitingSince !== null && Date.now() - this.waitingSince > slowestMs) source.destroy();
    else if (!(await this.keyIsLive(request))) this.ending.abort();
  }

  private async keyIsLive(request: PlatformRequest): Promise<boolean> {
    const secret = /^Bearer +([\x21-\x7e]+) *$/iu.exec(request.headers.authorization ?? '')?.[1] ?? '';
    try {
      const key = await this.keys.keyByHash(hashKey(secret));
      return key !== null && (key.expiresAt === null || Date.parse(key.expiresAt) > Date.now());
    } catch {
      // The log is away: nothing is read from it meanwhile either.
      return true;
    }
  }
}
