import { Cursor } from './cursor.js';
import type { FaultCode, OnFault } from './fault.js';
import { Fingerprint, newFingerprintKey } from './fingerprint.js';
import type { EventRow, LogSource, StreamRow, StreamStep } from './source.js';

const key = newFingerprintKey();

/**
 * Compares the events of an account with its stream rows while they pass, in memory that does not grow. It only tells
 * whether all is well: each stream has its versions from 1 to the row's once each, begins and ends where the row says.
 * If not, `findStreamFaults` finds out what is wrong.
 */
export class StreamTally {
  /** Version n adds the end of n and takes the end of n - 1 away: what is left are the ends of whole streams. */
  private readonly ends = new Fingerprint(key);
  private readonly firsts = new Fingerprint(key);
  private stream = '';
  private version = 0;
  private lastsFit = true;

  event(row: EventRow): void {
    // The events of a stream mostly follow each other, and their ends cancel out.
    if (row.stream === this.stream && row.version === this.version + 1) {
      this.version = row.version;
      return;
    }
    this.endRun();
    if (row.version === 1) this.firsts.add(row.stream, row.position);
    else this.ends.remove(row.stream, row.version - 1);
    this.stream = row.stream;
    this.version = row.version;
  }

  /** A stream row, with the event at its `last`; undefined where there is none. */
  row(row: StreamRow, last: EventRow | undefined): void {
    this.ends.remove(row.id, row.version);
    this.firsts.remove(row.id, row.first);
    if (last?.stream !== row.id || last.version !== row.version) this.lastsFit = false;
  }

  /** Once all events and rows have passed. */
  isWhole(): boolean {
    this.endRun();
    this.stream = '';
    this.version = 0;
    return this.lastsFit && this.ends.isEmpty() && this.firsts.isEmpty();
  }

  private endRun(): void {
    if (this.version !== 0) this.ends.add(this.stream, this.version);
  }
}

interface StreamContext {
  readonly account: string;
  readonly source: LogSource;
  readonly onFault: OnFault;
  /** Events of the account that a recorded purge removed: so many versions may be missing. */
  readonly purged: number;
}

/** Goes through the streams of an account in order and reports what is wrong with each. */
export const findStreamFaults = async (context: StreamContext): Promise<void> => {
  const rows = new Cursor(context.source.streamsById(context.account));
  const steps = new Cursor(context.source.streamSteps(context.account));
  const gaps: Gap[] = [];
  for (;;) {
    const [row, step] = [await rows.peek(), await steps.peek()];
    if (row === undefined && step === undefined) break;
    const order = compareIds(row?.id, step?.stream);
    if (order <= 0) rows.skip();
    const stream = (order <= 0 ? row?.id : step?.stream) ?? '';
    await checkStream(context, stream, order <= 0 ? row : undefined, steps, gaps);
  }
  // A purge names account positions and no streams: only the sum tells whether more is gone than was purged.
  if (gaps.reduce((sum, { count }) => sum + count, 0) === context.purged) return;
  for (const { stream, count, words, position } of gaps) {
    report(context, 'stream-gap', stream, position, `it lacks ${count === 1 ? 'version' : 'versions'} ${words}`);
  }
};

interface Gap {
  readonly stream: string;
  readonly count: number;
  readonly words: string;
  readonly position: number | null;
}

const checkStream = async (
  context: StreamContext,
  stream: string,
  row: StreamRow | undefined,
  steps: Cursor<StreamStep>,
  gaps: Gap[],
): Promise<void> => {
  let version = 0;
  let last: StreamStep | null = null;
  for (let step = await steps.peek(); step?.stream === stream; step = await steps.peek()) {
    steps.skip();
    if (row === undefined && last === null) {
      report(context, 'stream-missing', stream, step.accountPosition, 'there is no row of it');
    }
    if (step.version <= version) {
      report(context, 'stream-repeated', stream, step.accountPosition, `version ${step.version} is there again`);
      continue;
    }
    if (step.version > version + 1) gaps.push(gapOf(stream, version + 1, step.version - 1, step.accountPosition));
    if (row !== undefined && step.version === 1 && row.first !== step.position) {
      const found = `its row says that it begins at global position ${row.first}, not ${step.position}`;
      report(context, 'stream-changed', stream, step.accountPosition, found);
    }
    version = step.version;
    last = step;
  }
  if (row === undefined) return;
  if (row.version < version) {
    const found = `its row says version ${row.version}, and there are ${version}`;
    report(context, 'stream-changed', stream, last?.accountPosition ?? null, found);
  } else if (row.version > version) {
    gaps.push(gapOf(stream, version + 1, row.version, last?.accountPosition ?? null));
  } else if (last !== null && row.last !== last.position) {
    const found = `its row says that it ends at global position ${row.last}, not ${last.position}`;
    report(context, 'stream-changed', stream, last.accountPosition, found);
  }
};

const gapOf = (stream: string, first: number, last: number, position: number | null): Gap => ({
  stream,
  count: last - first + 1,
  words: first === last ? `${first}` : `${first} to ${last}`,
  position,
});

const report = (
  { account, onFault }: StreamContext,
  code: FaultCode,
  stream: string,
  position: number | null,
  found: string,
): void => onFault({ code, account, position, at: `stream ${stream}`, found });

/** The order of the sources: by the bytes of UTF-8. What is not there comes last. */
const compareIds = (one: string | undefined, other: string | undefined): number => {
  if (one === undefined) return other === undefined ? 0 : 1;
  if (other === undefined) return -1;
  return one === other ? 0 : Buffer.compare(Buffer.from(one), Buffer.from(other));
};
