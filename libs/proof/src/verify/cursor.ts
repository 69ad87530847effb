/** Reads batches one item at a time, with a look at the next. */
export class Cursor<T> {
  private batch: readonly T[] = [];
  private at = 0;
  private readonly batches: AsyncIterator<readonly T[]>;

  constructor(source: AsyncIterable<readonly T[]>) {
    this.batches = source[Symbol.asyncIterator]();
  }

  /** The next item, which stays the next; undefined at the end. */
  async peek(): Promise<T | undefined> {
    while (this.at >= this.batch.length) {
      const next = await this.batches.next();
      if (next.done === true) return undefined;
      this.batch = next.value;
      this.at = 0;
    }
    return this.batch[this.at];
  }

  /** Takes the next item. */
  async next(): Promise<T | undefined> {
    const item = await this.peek();
    this.at += 1;
    return item;
  }

  /** The next item where it is at hand without waiting; undefined says nothing. */
  atHand(): T | undefined {
    return this.batch[this.at];
  }

  /** Goes over the item at hand. */
  skip(): void {
    this.at += 1;
  }

  /** Ends the source early. */
  async close(): Promise<void> {
    await this.batches.return?.();
  }
}
