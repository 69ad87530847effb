import { createHash, type Hash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Inject, Injectable, type BeforeApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { startFollower, type EventStore, type Follower, type Sql } from '#event-store';
import { errorFacts, EVENT_STORE, LOGGER, SEALING, SQL, type Logger } from '#platform';
import type { Sealing } from '#sealing';
import type { ExportOrder, StepFile } from './export-files.js';
import { ExportFiles, filesOf, logIdOf } from './export-files.js';
import type { ClaimedJob, ExportedFile, ExportManifest, ExportPin } from './export-jobs.js';
import { claimExport, endExport, failExport, noteExports, renewExport } from './export-jobs.js';
import type { ExportCreated } from './export-order.js';
import { orderedExport } from './export-order.js';
import { queryJson } from './export-query.js';

/** A worker that says nothing for this long lost its export to another, ms. */
const leaseMs = 30_000;
/** How often exports are looked for, ms. */
const lookEveryMs = 500;
/** How long to wait for the sealer, which signs once a second, ms. */
const sealerPatienceMs = 5_000;
/** Checkpoints that an export gives besides its own, so that one who kept an older one finds it or a neighbour. */
const mostCheckpoints = 100;

/**
 * Makes exports: pins what one holds and reckons its manifest in one pass over the log. Files are not kept; they come
 * out of the log again, byte for byte, when somebody fetches them. A worker that dies loses its lease, and another one
 * makes the export.
 */
@Injectable()
export class ExportMaker implements OnModuleInit, BeforeApplicationShutdown {
  private follower: Follower | null = null;
  private readonly stopping = new AbortController();
  private working: Promise<void> = Promise.resolve();

  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SQL) private readonly sql: Sql,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  onModuleInit(): void {
    this.follower = startFollower({
      store: this.store,
      sql: this.sql,
      name: 'exports',
      types: ['export.created'],
      handle: (events, sql) =>
        noteExports(
          sql,
          events.map(({ event }) => ({
            account: event.account,
            id: (event.data as unknown as ExportCreated).exportId,
          })),
        ),
      log: (level, message, facts = {}) => this.logger[level](facts, message),
    });
    this.working = this.work();
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopping.abort();
    await this.working;
    await this.follower?.stop();
  }

  private async work(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      const isBusy = await this.makeNext().catch((error: unknown) => {
        this.logger.warn(errorFacts(error), 'exports could not be looked for; tried again');
        return false;
      });
      if (!isBusy) await delay(lookEveryMs, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  private async makeNext(): Promise<boolean> {
    const job = await claimExport(this.sql, leaseMs);
    if (job === null) return false;
    try {
      await this.make(job);
    } catch (error) {
      const facts = { ...errorFacts(error), account: job.account, export: job.id, attempt: job.attempts };
      if (!this.stopping.signal.aborted) this.logger.error(facts, 'an export could not be made');
      await failExport(this.sql, job);
    }
    return true;
  }

  private async make(job: ClaimedJob): Promise<void> {
    const order = await orderedExport(this.store, this.sealing, job.account, job.id);
    if (order === null) throw new Error('an export without its event');
    const pin = await this.pin(order);
    const pass = new ManifestPass(
      new ExportFiles({ store: this.store, sql: this.sql, sealing: this.sealing }, order, pin),
      order,
    );
    let renewedAt = performance.now();
    for await (const events of pass.steps()) {
      this.stopping.signal.throwIfAborted();
      if (performance.now() - renewedAt < leaseMs / 6) continue;
      renewedAt = performance.now();
      if (!(await renewExport(this.sql, job, events, leaseMs))) return;
    }
    const manifest = await pass.manifest(pin, await logIdOf(this.sql), await this.rootOf(order.account, pin));
    await endExport(this.sql, job, pin, manifest);
  }

  /** Fixes what the export holds. The sealer is given the time to sign the newest events. */
  private async pin({ account, range, format }: ExportOrder): Promise<ExportPin> {
    const madeAt = String(await this.store.accountSize(account));
    const sizes = format === 'csv' ? [] : await this.checkpointSizes(account, range.last + 1n);
    return {
      first: String(range.first),
      last: String(range.last),
      treeSize: sizes.at(-1) ?? null,
      checkpoints: sizes,
      createdAt: new Date().toISOString(),
      madeAt,
    };
  }

  private async checkpointSizes(account: string, wanted: bigint): Promise<readonly string[]> {
    const newest = async (): Promise<string | null> => {
      const [row] = await this.sql.query<{ size: string | null }>(
        'select max(size) as size from checkpoint where account = $1',
        [account],
      );
      return row?.size ?? null;
    };
    let size = await newest();
    const until = performance.now() + sealerPatienceMs;
    while ((size === null || BigInt(size) < wanted) && performance.now() < until && !this.stopping.signal.aborted) {
      await delay(200);
      size = await newest();
    }
    if (size === null) return [];
    const rows = await this.sql.query<{ size: string }>(
      `with numbered as (
         select size, row_number() over (order by size) as place, count(*) over () as total
         from checkpoint where account = $1 and size <= $2
       ) select size from numbered
       where size = $2 or place % greatest(1, ceil(total / $3::numeric)) = 0 order by numbered.size`,
      [account, size, mostCheckpoints],
    );
    return rows.map((row) => row.size);
  }

  private async rootOf(account: string, { treeSize }: ExportPin): Promise<string | null> {
    if (treeSize === null) return null;
    const [row] = await this.sql.query<{ root: Buffer }>(
      'select root from checkpoint where account = $1 and size = $2',
      [account, treeSize],
    );
    return row?.root.toString('base64') ?? null;
  }
}

/** One pass over the events of an export, in which all of its files are reckoned at once. */
class ManifestPass {
  private readonly hashes = new Map<string, { readonly hash: Hash; bytes: number }>();
  private events = 0;
  private first: bigint | null = null;
  private last: bigint | null = null;
  /** Whether an event between the first and the last was left out for its time. */
  private leftOut = false;
  private pendingLeftOut = false;
  private readonly purged: { readonly first: string; readonly last: string }[] = [];
  private expected: bigint;

  constructor(
    private readonly files: ExportFiles,
    private readonly order: ExportOrder,
  ) {
    this.expected = order.range.first;
  }

  /** Goes on to the next step, and says how many events are done. */
  async *steps(): AsyncGenerator<number, void> {
    const names = filesOf(this.order);
    const steps = names.filter((name): name is StepFile => /^(?:events|proofs|content)\./u.test(name));
    for (const name of steps) this.add(name, this.files.head(name));
    for await (const { events, seen } of this.files.steps()) {
      for (const name of steps) this.add(name, await this.files.step(name, events));
      this.note(new Set(events.map(({ position }) => position)), seen);
      this.events += events.length;
      yield this.events;
    }
    this.noteMissing(this.order.range.last + 1n);
    for (const name of names) {
      if (name === 'checkpoints.jsonl' || name === 'log-keys.json') this.add(name, await this.files.small(name));
    }
  }

  async manifest(pin: ExportPin, logId: string | null, root: string | null): Promise<ExportManifest> {
    const { account, filter, range } = this.order;
    const isNarrow = filter.types !== null || filter.sessionId !== null || filter.stream !== null;
    const isTimed = filter.from !== null || filter.to !== null;
    const complete = !isNarrow && !this.leftOut && this.events > 0;
    const [first, last] = isTimed ? [this.first, this.last] : [range.first, range.last];
    const purged = this.purged.filter((gap) => BigInt(gap.last) >= (first ?? 0n) && BigInt(gap.first) <= (last ?? -1n));
    return Promise.resolve({
      format: 'hookledger-export/1',
      logId,
      account,
      exportId: this.order.id,
      createdAt: pin.createdAt,
      query: queryJson(filter),
      from: filter.from?.toISOString() ?? null,
      to: filter.to?.toISOString() ?? null,
      complete,
      first: first === null || this.events === 0 ? null : String(first),
      last: last === null || this.events === 0 ? null : String(last),
      events: this.events,
      content: this.order.content,
      ...(complete && purged.length > 0 ? { purged } : {}),
      checkpoint: pin.treeSize === null ? null : { size: pin.treeSize, root },
      files: Object.fromEntries(
        filesOf(this.order).map((name): [string, ExportedFile] => {
          const found = this.hashes.get(name);
          return [name, { sha256: found?.hash.copy().digest('hex') ?? '', bytes: found?.bytes ?? 0 }];
        }),
      ),
    } as unknown as ExportManifest);
  }

  private add(name: string, piece: Buffer): void {
    const file = this.hashes.get(name) ?? { hash: createHash('sha256'), bytes: 0 };
    file.hash.update(piece);
    file.bytes += piece.length;
    this.hashes.set(name, file);
  }

  private note(wanted: ReadonlySet<bigint>, seen: readonly { readonly position: bigint }[]): void {
    for (const { position } of seen) {
      this.noteMissing(position);
      this.expected = position + 1n;
      if (!wanted.has(position)) {
        if (this.first !== null) this.pendingLeftOut = true;
        continue;
      }
      this.first ??= position;
      this.last = position;
      if (this.pendingLeftOut) this.leftOut = true;
    }
  }

  /** Positions are dense: what is not there was purged. */
  private noteMissing(next: bigint): void {
    if (next > this.expected) this.purged.push({ first: String(this.expected), last: String(next - 1n) });
  }
}
