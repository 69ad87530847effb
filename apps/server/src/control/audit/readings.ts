import { Inject, Injectable } from '@nestjs/common';
import { openReading, ReadModelMissing, record, textSearch, type Projection, type Reading } from '#audit';
import type { EventStore, Sql } from '#event-store';
import { EVENT_STORE, Problem, SEALING, SQL } from '#platform';
import type { Sealing } from '#sealing';

/** Opens read models for a request. */
@Injectable()
export class Readings {
  private readonly textSearch: Projection;

  constructor(
    @Inject(SQL) readonly sql: Sql,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) sealing: Sealing,
  ) {
    this.textSearch = textSearch(sealing);
  }

  /** Reads the record's tables. A table that was swapped away between finding and reading it is found anew, once. */
  async ofRecord<T>(account: string, read: (reading: Reading) => Promise<T>): Promise<T> {
    try {
      return await read(await this.open(record, account));
    } catch (error) {
      if (!isUndefinedTable(error)) throw error;
      return read(await this.open(record, account));
    }
  }

  /** As `ofRecord`, with the tables of the text search beside; the answer is complete as far as both are. */
  async ofText<T>(account: string, read: (reading: Reading, text: Reading) => Promise<T>): Promise<T> {
    return this.ofRecord(account, async (reading) => {
      const text = await this.open(this.textSearch, account);
      return read({ ...reading, completeUpTo: least(reading.completeUpTo, text.completeUpTo) }, text);
    });
  }

  private async open(projection: Projection, account: string): Promise<Reading> {
    try {
      return await openReading(this.sql, this.store, projection, account);
    } catch (error) {
      if (!(error instanceof ReadModelMissing) && !isUndefinedTable(error)) throw error;
      throw new Problem(
        503,
        'read_model_missing',
        'This read model is not built yet; a worker builds it. Try again.',
        [],
        {
          'retry-after': '5',
        },
      );
    }
  }
}

const isUndefinedTable = (error: unknown): boolean =>
  typeof error === 'object' && error !== null && 'code' in error && error.code === '42P01';

const least = (a: bigint | null, b: bigint | null): bigint | null => {
  if (a === null || b === null) return null;
  return a < b ? a : b;
};
