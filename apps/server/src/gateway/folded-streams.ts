import { LRUCache } from 'lru-cache';
import type { EventStore } from '#event-store';
import type { RecordedEvent } from '#record';

/** A stream's state, and the version that it has it at. */
export interface Folded<S> {
  readonly state: S;
  readonly version: number;
}

/** How a stream is folded. */
export interface Folding<S> {
  readonly initial: S;
  readonly evolve: (state: S, event: RecordedEvent) => S;
  /** Nothing before such an event matters; absent: everything does. */
  readonly isBeginning?: (event: RecordedEvent) => boolean;
}

/** Streams whose state is kept in memory, and the events that the first look takes in. */
const kept = 500;
const window = 1_024;

/**
 * Folds streams, and goes on from where it stood: what a process keeps in memory is only ever behind the log, never
 * beside it, and whoever writes does so at the version that was read.
 */
export class FoldedStreams<S> {
  private readonly known = new LRUCache<string, Folded<S>>({ max: kept });

  constructor(
    private readonly store: EventStore,
    private readonly folding: Folding<S>,
  ) {}

  /** The state with everything that was committed before this call. */
  async read(account: string, stream: string): Promise<Folded<S>> {
    const key = `${account}\0${stream}`;
    const known = this.known.get(key);
    const folded = known === undefined ? await this.begin(account, stream) : await this.goOn(account, stream, known);
    const newest = this.known.get(key);
    if (newest === undefined || newest.version <= folded.version) this.known.set(key, folded);
    return folded;
  }

  private async goOn(account: string, stream: string, { state, version }: Folded<S>): Promise<Folded<S>> {
    const events = await this.store.readStream(account, stream, version + 1);
    return {
      state: events.reduce((before, { event }) => this.folding.evolve(before, event), state),
      version: events.at(-1)?.event.streamVersion ?? version,
    };
  }

  private async begin(account: string, stream: string): Promise<Folded<S>> {
    const { initial, isBeginning } = this.folding;
    const version = await this.store.streamVersion(account, stream);
    if (version === 0) return { state: initial, version };
    for (let length = window; ; length *= 2) {
      const from = isBeginning === undefined ? 1 : Math.max(1, version - length + 1);
      const events = (await this.store.readStream(account, stream, from)).map(({ event }) => event);
      if (from > 1 && !events.some((event) => isBeginning?.(event) === true)) continue;
      // Events may be purged; their versions are not given again.
      const last = Math.max(version, events.at(-1)?.streamVersion ?? 0);
      return { state: events.reduce(this.folding.evolve, initial), version: last };
    }
  }
}
