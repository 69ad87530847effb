import type { Append, AppendResult, CompletedCommand, EventStore, StreamWrite } from '#event-store';
import { invocationStream, type EventFields, type NewEvent } from '#record';
import type { Envelope } from '#sealing';

/** The log did not take what was decided: another attempt owns this invocation's command or stream. */
export class FiringSuperseded extends Error {
  override readonly name = 'FiringSuperseded';
}

export interface Positions {
  readonly first: bigint;
  readonly last: bigint;
}

/** What is written in one commit with an invocation's end, after it; asked again when one of its streams has moved. */
export type Beside = () => Promise<readonly StreamWrite[]>;

const nothing: Beside = () => Promise.resolve([]);

/** How often streams beside an end may move before that is taken for a fault. */
const mostTries = 20;

interface Commit {
  /** Pages before this one are written whole, and of it what happened so far. */
  readonly upTo: number;
  readonly end: readonly NewEvent[];
  readonly commands: readonly CompletedCommand[];
  readonly before: readonly StreamWrite[];
  readonly after: Beside;
  /** The invocation is open afterwards, though this is an end of what runs now. */
  readonly stays?: boolean;
}

/** Where an invocation stands that is gone on with. */
export interface BookMark {
  /** Events of its stream. */
  readonly version: number;
  /** Position of its opening. */
  readonly first: bigint;
  /** Place in the chain of the first handler that has not been asked. */
  readonly from: number;
}

/** The events of one handler, kept apart so that they are written in chain order whenever they are written. */
interface Page {
  readonly host: NewEvent[];
  started: NewEvent | null;
  verdict: NewEvent | null;
  startedWritten: boolean;
}

/**
 * What one firing writes, in the order of events.md §2: `opened`, `session.withheld`, then per plugin in chain order
 * its `host.*` and one `handler.*`, then `closed`. Usually one commit at the end; `keep` makes what there is durable
 * before a host call has an effect.
 */
export class Book {
  private readonly front: NewEvent[] = [];
  private readonly pages: Page[] = [];
  private page = 0;
  private version = 0;
  private first: bigint | null = null;
  private last = 0n;
  private fault: Error | null = null;
  private writing: Promise<unknown> = Promise.resolve();
  private readonly isResumed: boolean;

  constructor(
    private readonly store: EventStore,
    private readonly envelope: Envelope,
    private readonly account: string,
    private readonly invocationId: string,
    private readonly fields: EventFields,
    handlers: number,
    /** The process that runs the chain, named by an opening that is written before the end. */
    private readonly instance: string | null = null,
    /** Goes on with an invocation that waited. */
    goesOn: BookMark | null = null,
  ) {
    this.isResumed = goesOn !== null;
    if (goesOn !== null) {
      this.version = goesOn.version;
      this.first = goesOn.first;
      this.page = goesOn.from;
    }
    for (let i = 0; i < handlers; i += 1)
      this.pages.push({ host: [], started: null, verdict: null, startedWritten: false });
  }

  /** `invocation.opened` and `session.withheld`. */
  open(event: NewEvent): void {
    this.front.push(this.complete(event));
  }

  /** A `host.*` event of a handler. Ignored once the handler's verdict stands: the run is closed (MW-57). */
  host(index: number, event: NewEvent): void {
    const page = this.pages[index];
    if (page?.verdict !== null) return;
    page.host.push(this.complete(event));
  }

  verdict(index: number, event: NewEvent): void {
    const page = this.pages[index];
    if (page !== undefined) page.verdict = this.complete(event);
  }

  /**
   * Makes durable what there is, with `handler.started` of this handler before its first effect (MW-121). The caller
   * has seen to it that the verdicts of all earlier handlers stand.
   */
  async keep(index: number, started: () => NewEvent): Promise<void> {
    const page = this.pages[index];
    if (page?.started === null) page.started = this.complete(started());
    await this.write({ upTo: index, end: [], commands: [], before: [], after: nothing });
  }

  /**
   * Makes the opening durable, so that another replica can tell that this invocation is running. `before` is written in
   * the same commit, ahead of it; nothing is when a stream of it has moved.
   */
  async keepOpening(before: readonly StreamWrite[] = []): Promise<void> {
    await this.write({ upTo: -1, end: [], commands: [], before, after: nothing });
  }

  /** Writes everything that is left and closes the invocation, with what goes into the same commit, after it. */
  async close(event: NewEvent, commands: readonly CompletedCommand[], after: Beside = nothing): Promise<Positions> {
    await this.write({ upTo: this.pages.length, end: [this.complete(event)], commands, before: [], after });
    return { first: this.first ?? 0n, last: this.last };
  }

  /** Writes everything there is, last that the invocation waits: it stays open. */
  async hold(event: NewEvent, commands: readonly CompletedCommand[], after: Beside): Promise<Positions> {
    await this.write({
      upTo: this.pages.length,
      end: [this.complete(event)],
      commands,
      before: [],
      after,
      stays: true,
    });
    return { first: this.first ?? 0n, last: this.last };
  }

  private complete(event: NewEvent): NewEvent {
    return { ...this.fields, ...event };
  }

  /** One write at a time; each takes what has gathered when its turn comes. */
  private write(commit: Commit): Promise<void> {
    const turn = this.writing.then(() => this.writeNow(commit));
    this.writing = turn.catch(() => undefined);
    return turn;
  }

  private async writeNow(commit: Commit): Promise<void> {
    if (this.fault !== null) throw this.fault;
    const gathered = this.gather(commit.upTo);
    const { end, stays = end.length === 0 } = commit;
    const all = [...gathered, ...end];
    const events = stays ? all.map((event) => this.named(event)) : all;
    if (events.length === 0 && commit.before.length === 0) return;
    const stream = invocationStream(this.invocationId);
    const own: StreamWrite = { stream, expectedVersion: this.version, events };
    const result = await this.append(own, commit).catch((error: unknown) => this.fail(asError(error)));
    if (result.kind !== 'appended')
      return this.fail(new FiringSuperseded(`invocation ${this.invocationId}: ${result.kind}`));
    this.version += events.length;
    const written = result.events.filter(({ event }) => event.stream === stream);
    this.first ??= written.at(0)?.position ?? null;
    this.last = written.at(-1)?.position ?? this.last;
  }

  /** What goes in after the end is asked for anew when a stream of it has moved since. */
  private async append(own: StreamWrite, { before, after, commands }: Commit): Promise<AppendResult> {
    for (let tries = 1; ; tries += 1) {
      const beside = await after();
      const append: Append = {
        account: this.account,
        writes: [...before, own, ...beside],
        blobs: this.envelope.blobs(),
        ...(commands.length > 0 ? { commands } : {}),
      };
      const result = await this.store.append(append);
      const moved = result.kind === 'conflict' && beside.some(({ stream }) => stream === result.stream);
      if (!moved || tries >= mostTries) return result;
    }
  }

  /** Who finds an invocation open must be able to tell whether the one that runs it still lives. */
  private named(event: NewEvent): NewEvent {
    const isTold = event.type === 'invocation.opened' || (this.isResumed && event.type === 'handler.started');
    if (this.instance === null || !isTold) return event;
    return { ...event, data: { ...event.data, instance: this.instance } };
  }

  /** A write that failed took its events with it: nothing may follow them, or the record would have a hole. */
  private fail(error: Error): never {
    this.fault = error;
    throw error;
  }

  /** Takes what is ready in chain order: whole pages before `upTo`, and of page `upTo` what happened so far. */
  private gather(upTo: number): NewEvent[] {
    const events = this.front.splice(0);
    for (; this.page < this.pages.length && this.page <= upTo; this.page += 1) {
      const page = this.pages[this.page];
      if (page === undefined) break;
      if (page.started !== null && !page.startedWritten) {
        events.push(page.started);
        page.startedWritten = true;
      }
      events.push(...page.host.splice(0));
      if (page.verdict === null) break;
      events.push(page.verdict);
    }
    return events;
  }
}

const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)));
