/**
 * Work on the same thing one after another in this process, so that its own requests do not race each other; those of
 * other replicas are told apart by versions.
 */
export class OneAtATime {
  private readonly waiting = new Map<string, Promise<unknown>>();

  /** Does the work when everything before it on any of these keys is over. */
  async on<T>(keys: readonly string[], work: () => Promise<T>): Promise<T> {
    const before = Promise.all(keys.flatMap((key) => this.waiting.get(key) ?? []));
    const mine = before.then(work);
    const over = mine.then(
      () => undefined,
      () => undefined,
    );
    for (const key of keys) this.waiting.set(key, over);
    try {
      return await mine;
    } finally {
      for (const key of keys) if (this.waiting.get(key) === over) this.waiting.delete(key);
    }
  }
}
