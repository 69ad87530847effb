import { readSync, writeSync } from 'node:fs';

/**
 * Where a child is, in a few bytes of a file that both processes hold open. A child inside plugin code cannot say
 * anything over its pipe; this tells the supervisor all the same which handler is running and since when. Both sides
 * read the same monotonic clock.
 */
export interface Marker {
  /** Counts entries into plugin code. */
  readonly entry: number;
  /** `together`: several handlers from `handlerIndex` on in one entry. */
  readonly at: 'outside' | 'handler' | 'load' | 'together';
  /** The chain that was entered, or the load. */
  readonly id: number;
  readonly handlerIndex: number;
  /** When the child is killed if it is still there, ms of `monotonicMs`. */
  readonly killAt: number;
  readonly since: number;
}

/** Index into `PLACES`. */
type Place = 1 | 2 | 3;

const WORDS = 6;
const BYTES = WORDS * 8;
const PLACES = ['outside', 'handler', 'load', 'together'] as const;

/** Milliseconds of CLOCK_MONOTONIC, which all processes of a machine share. */
export const monotonicMs = (): number => {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1000 + nanoseconds / 1e6;
};

/** What a child says about itself through the file. */
export interface MarkerWriter {
  readonly enter: (place: Place, id: number, handlerIndex: number, since: number, killAt: number) => void;
  /** `at once` where the handler that was entered is not over: it must not be blamed for what happens meanwhile. */
  readonly leave: (when: 'lazily' | 'at once') => void;
}

/** Being outside is only written when it lasts: it is what a child is between any two entries, and writing costs. */
const LEAVE_MS = 50;

export const markerWriter = (fd: number): MarkerWriter => {
  const words = new Float64Array(WORDS);
  const bytes = Buffer.from(words.buffer);
  let isOutside = true;
  let timer: NodeJS.Timeout | undefined;
  const settle = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (!isOutside) return;
    words[1] = 0;
    writeSync(fd, bytes, 0, BYTES, 0);
  };
  return {
    enter: (place, id, handlerIndex, since, killAt) => {
      isOutside = false;
      words[0] = (words[0] ?? 0) + 1;
      words[1] = place;
      words[2] = id;
      words[3] = handlerIndex;
      words[4] = since;
      words[5] = killAt;
      writeSync(fd, bytes, 0, BYTES, 0);
    },
    leave: (when) => {
      isOutside = true;
      if (when === 'at once') settle();
      else timer ??= setTimeout(settle, LEAVE_MS);
    },
  };
};

export const readMarker = (fd: number): Marker => {
  const words = new Float64Array(WORDS);
  readSync(fd, Buffer.from(words.buffer), 0, BYTES, 0);
  const [entry = 0, place = 0, id = 0, handlerIndex = 0, since = 0, killAt = 0] = words;
  return { entry, at: PLACES[place] ?? 'outside', id, handlerIndex, since, killAt };
};
