import { Presets, SingleBar } from 'cli-progress';

/** Shows how far a long command is: a bar on a terminal, a plain line now and then elsewhere, on standard error. */
export interface Progress {
  /** `total` may grow. */
  update(done: number, total: number): void;
  /** What is being done now. */
  say(words: string): void;
  /** Takes the bar away, or says the last line. */
  stop(): void;
}

/** A stream that a person or a file reads. */
export type ProgressStream = NodeJS.WriteStream | (NodeJS.WritableStream & { readonly isTTY?: boolean });

/** Options of `showProgress`. */
export interface ProgressOptions {
  /** What is counted: `events`, `keys`. */
  readonly unit: string;
  /** `none` says nothing: the command prints JSON only. */
  readonly show?: 'auto' | 'none';
  readonly stream?: ProgressStream;
  /** ms, of a clock that never goes back. */
  readonly now?: () => number;
}

/** How often plain lines come, ms. */
const lineEveryMs = 5_000;

/** Begins to show progress. */
export const showProgress = (options: ProgressOptions): Progress => {
  const { unit, show = 'auto', stream = process.stderr, now = () => performance.now() } = options;
  if (show === 'none') return { update: () => undefined, say: () => undefined, stop: () => undefined };
  const begun = now();
  return stream.isTTY === true ? bar(unit, stream, begun, now) : lines(unit, stream, begun, now);
};

/** Rate so far and time left, in words: `12,300 events/s, 4 s left`. */
export const paceOf = (done: number, total: number, seconds: number, unit: string): string => {
  const rate = seconds > 0 ? done / seconds : 0;
  const left = rate > 0 ? Math.max(0, total - done) / rate : null;
  const pace = `${Math.round(rate).toLocaleString('en-US')} ${unit}/s`;
  return left === null || done >= total ? pace : `${pace}, ${duration(left)} left`;
};

const duration = (seconds: number): string => {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${String(whole)} s`;
  const minutes = Math.floor(whole / 60);
  return minutes < 60
    ? `${String(minutes)} min ${String(whole % 60)} s`
    : `${String(Math.floor(minutes / 60))} h ${String(minutes % 60)} min`;
};

const bar = (unit: string, stream: ProgressStream, begun: number, now: () => number): Progress => {
  const shown = new SingleBar(
    {
      format: '{bar} {percentage}% | {value}/{total} {unit} | {pace}{words}',
      stream,
      hideCursor: true,
      clearOnComplete: true,
    },
    Presets.shades_classic,
  );
  let started = false;
  let words = '';
  return {
    update: (done, total) => {
      const facts = { unit, words, pace: paceOf(done, total, (now() - begun) / 1_000, unit) };
      if (!started) shown.start(total, done, facts);
      started = true;
      shown.setTotal(total);
      shown.update(done, facts);
    },
    say: (now) => {
      words = ` | ${now}`;
      if (started) shown.update({ words });
    },
    stop: () => {
      if (started) shown.stop();
    },
  };
};

const lines = (unit: string, stream: ProgressStream, begun: number, now: () => number): Progress => {
  let saidAt = begun;
  let last: string | null = null;
  return {
    update: (done, total) => {
      const pace = paceOf(done, total, (now() - begun) / 1_000, unit);
      last = `${done.toLocaleString('en-US')} of ${total.toLocaleString('en-US')} ${unit}, ${pace}`;
      if (now() - saidAt < lineEveryMs) return;
      saidAt = now();
      stream.write(`${last}\n`);
      last = null;
    },
    say: (words) => {
      if (last !== null) stream.write(`${last}\n`);
      last = null;
      stream.write(`${words}\n`);
    },
    stop: () => {
      if (last !== null) stream.write(`${last}\n`);
      last = null;
    },
  };
};
