import { Inject, Injectable } from '@nestjs/common';
import type { EventStore } from '#event-store';
import {
  cronRunStream,
  cronStream,
  decideLapse,
  evolveCronJob,
  evolveCronRun,
  isOpen,
  newCronJob,
  runTail,
  unusedRun,
  type CronRun,
} from '#lifecycles';
import { EVENT_STORE, Problem } from '#platform';
import type { RecordedEvent } from '#record';

/** A run as its stream has it. */
export interface FoundRun {
  readonly stream: string;
  readonly version: number;
  readonly run: CronRun;
}

/** A job's stream, with the run that keeps it from starting another. */
export interface FoundJob {
  readonly stream: string;
  readonly version: number;
  readonly openRun: string | null;
}

/** Events from the end of a job's stream among which a run is, unless it is declared anew again and again. */
const jobTail = 8;

/** The streams of cron jobs and their runs, read from their ends: a schedule may be years old. */
@Injectable()
export class CronStreams {
  constructor(@Inject(EVENT_STORE) private readonly store: EventStore) {}

  async run(account: string, runId: string): Promise<FoundRun> {
    const stream = cronRunStream(runId);
    const { version, events } = await this.end(account, stream, runTail);
    const run = events.reduce(evolveCronRun, unusedRun);
    if (run.slot === null && version > 0 && events.length === 0) throw purged();
    return { stream, version, run };
  }

  /** A run that is there. Throws 404. */
  async knownRun(account: string, runId: string): Promise<FoundRun> {
    const found = await this.run(account, runId);
    if (found.run.slot !== null) return found;
    throw new Problem(404, 'unknown_run', 'There is no such cron run.');
  }

  /** A run whose lease has lapsed is put on record as lost on the way, so that no job waits for a worker. */
  async job(account: string, jobId: string, now: Date): Promise<FoundJob> {
    const stream = cronStream(jobId);
    const { version, events } = await this.end(account, stream, jobTail);
    const { lastRun } = events.reduce(evolveCronJob, newCronJob);
    const started = lastRun ?? (events.length < jobTail ? null : await this.lastStarted(account, stream));
    return { stream, version, openRun: started === null ? null : await this.stillOpen(account, started, now) };
  }

  /**
   * The last events of a stream, oldest first, and its version. Usually the newest event tells it; where newer ones
   * were purged only the log's count does, which is then taken before the events, so that none is missed.
   */
  private async end(
    account: string,
    stream: string,
    limit: number,
  ): Promise<{ readonly version: number; readonly events: readonly RecordedEvent[] }> {
    const newest = async (): Promise<readonly RecordedEvent[]> =>
      (await this.store.readAccount(account, { stream, order: 'newest', limit })).map(({ event }) => event).reverse();
    const [version, events] = await Promise.all([this.store.streamVersion(account, stream), newest()]);
    if ((events.at(-1)?.streamVersion ?? 0) === version) return { version, events };
    return { version: await this.store.streamVersion(account, stream), events: await newest() };
  }

  private async lastStarted(account: string, stream: string): Promise<string | null> {
    const range = { stream, order: 'newest', limit: 1, types: ['cron.run_started'] } as const;
    const [newest] = await this.store.readAccount(account, range);
    return newest === undefined ? null : evolveCronJob(newCronJob, newest.event).lastRun;
  }

  private async stillOpen(account: string, runId: string, now: Date): Promise<string | null> {
    const found = await this.run(account, runId);
    const lost = decideLapse(found.run, now);
    if (lost.length === 0) return isOpen(found.run, now) ? runId : null;
    const writes = [{ stream: found.stream, expectedVersion: found.version, events: lost }];
    const result = await this.store.append({ account, writes });
    // Somebody was quicker: closed it, renewed its lease, or wrote the same.
    return result.kind === 'appended' ? null : this.stillOpen(account, runId, now);
  }
}

/** What became of it was removed by the account's retention; it cannot be told, and must not happen again. */
const purged = (): Problem =>
  new Problem(410, 'purged', 'What became of this slot is past its retention and was removed.');
