import { backoffMs, pause } from './backoff.js';
import type { Connection } from './connection.js';
import type { JsonObject } from './json.js';
import { HookledgerProblem } from './problems.js';

/** Something that the server is still to be told. */
export interface Report {
  /** Also the idempotency key under which it is sent: it is recorded once, however often it is sent. */
  readonly id: string;
  /** The route, below the account. */
  readonly path: string;
  readonly body: JsonObject;
  /** Set once the server refused it: it stays for a person to look at, and is not sent again. */
  readonly refused?: { readonly status: number; readonly code: string; readonly detail: string };
}

/** Where reports are kept until they are told. `fileOutbox` of `@hookledger/sdk/node` survives the process. */
export interface Outbox {
  /** Resolves once it is kept as safely as this outbox keeps anything. */
  put(report: Report): Promise<void>;
  /** Oldest first. */
  list(): Promise<readonly Report[]>;
  remove(id: string): Promise<void>;
}

/** An outbox that lives as long as its process. */
export const memoryOutbox = (): Outbox => {
  const reports = new Map<string, Report>();
  return {
    put: (report) => Promise.resolve(void reports.set(report.id, report)),
    list: () => Promise.resolve([...reports.values()]),
    remove: (id) => Promise.resolve(void reports.delete(id)),
  };
};

/** What became of an outbox that was told. */
export interface Told {
  readonly told: number;
  /** Refused by the server, now or before: they stay in the outbox. */
  readonly refused: number;
  /** Not told yet: the server cannot be reached. */
  readonly left: number;
}

/** Between two attempts to tell what is in the outbox, ms. */
const retelling = { firstMs: 1_000, mostMs: 30_000 } as const;

/** Tells the server what it does not know yet, as soon as it is back. */
export class Teller {
  private readonly stopped = new AbortController();
  private telling: Promise<Told> | null = null;
  /** The round in the background, which sleeps between its attempts. */
  private round: Promise<void> | null = null;
  private wake: AbortController = new AbortController();
  private hasMore = true;

  constructor(
    private readonly connection: Connection,
    readonly outbox: Outbox,
  ) {
    connection.onAlive = () => {
      if (!this.hasMore || this.telling !== null) return;
      this.wake.abort();
      this.start();
    };
  }

  /** Keeps a report, and tells it in the background. */
  async keep(report: Report): Promise<void> {
    await this.outbox.put(report);
    this.hasMore = true;
    this.start();
  }

  /** Tells what there is, once. Never rejects for a server that is away. */
  tell(): Promise<Told> {
    this.telling ??= this.tellAll().finally(() => (this.telling = null));
    return this.telling;
  }

  /** Ends the telling in the background; what is kept stays kept. */
  async stop(): Promise<void> {
    this.stopped.abort();
    this.connection.onAlive = () => undefined;
    await this.round;
  }

  private start(): void {
    if (this.round !== null || this.stopped.signal.aborted) return;
    this.round = this.tellUntilDone().finally(() => (this.round = null));
  }

  private async tellUntilDone(): Promise<void> {
    for (let attempt = 1; !this.stopped.signal.aborted; attempt += 1) {
      const { left } = await this.tell().catch(() => ({ left: 1 }));
      if (left === 0) return;
      this.wake = new AbortController();
      const either = whenEither(this.stopped.signal, this.wake.signal);
      await pause(backoffMs(retelling, attempt, null, Math.random), either).catch(() => undefined);
    }
  }

  private async tellAll(): Promise<Told> {
    const reports = await this.outbox.list();
    let [told, refused, left] = [0, 0, 0];
    for (const report of reports) {
      const fate = report.refused === undefined ? await this.tellOne(report) : 'refused';
      if (fate === 'told') told += 1;
      if (fate === 'refused') refused += 1;
      if (fate === 'away') {
        // In their order: what comes later waits for what came first.
        left = reports.length - told - refused;
        break;
      }
    }
    this.hasMore = left > 0;
    return { told, refused, left };
  }

  private async tellOne(report: Report): Promise<'told' | 'refused' | 'away'> {
    try {
      const request = { method: 'POST', path: report.path, body: report.body } as const;
      const { signal } = this.stopped;
      await this.connection.send(request, { idempotencyKey: report.id, signal, reachMs: 0 });
    } catch (error) {
      if (!(error instanceof HookledgerProblem) || !isFinal(error)) return 'away';
      const { status, code, detail } = error;
      await this.outbox.put({ ...report, refused: { status, code, detail } });
      return 'refused';
    }
    await this.outbox.remove(report.id);
    return 'told';
  }
}

/** A key that is wrong or may not is mended by people, and then the report is told after all. */
const isFinal = ({ status }: HookledgerProblem): boolean => status < 500 && status !== 401 && status !== 403;

const whenEither = (...signals: readonly AbortSignal[]): AbortSignal => {
  const either = new AbortController();
  for (const signal of signals) {
    if (signal.aborted) either.abort();
    signal.addEventListener('abort', () => either.abort(), { once: true });
  }
  return either.signal;
};
