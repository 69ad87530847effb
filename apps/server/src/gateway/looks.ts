/** What is looked at again and again, and how. */
export interface LooksOptions {
  /** Does what there is to do. */
  readonly look: () => Promise<void>;
  readonly everyMs: number;
  /** Told of the first failure in a row; the next look tries again. */
  readonly failed: (error: unknown) => void;
}

/** After something was taken from the log, so that its commit is there when it is looked for, ms. */
const soonMs = 10;

/** Looks at regular times and when told to: one look at a time, and what comes meanwhile is looked at afterwards. */
export class Looks {
  private readonly timer: NodeJS.Timeout;
  private looking: Promise<void> | null = null;
  private again = false;
  private faulty = false;
  private stopped = false;

  constructor(private readonly options: LooksOptions) {
    this.timer = setInterval(() => this.now(), options.everyMs);
    this.timer.unref();
  }

  get isStopped(): boolean {
    return this.stopped;
  }

  now(): void {
    if (this.stopped) return;
    if (this.looking !== null) {
      this.again = true;
      return;
    }
    this.looking = this.once().finally(() => {
      this.looking = null;
      if (!this.again) return;
      this.again = false;
      this.now();
    });
  }

  soon(): void {
    setTimeout(() => this.now(), soonMs).unref();
  }

  /** Resolves when the look that is under way is over; none begins afterwards. */
  async stop(): Promise<void> {
    this.stopped = true;
    clearInterval(this.timer);
    await this.looking;
  }

  private async once(): Promise<void> {
    try {
      await this.options.look();
      this.faulty = false;
    } catch (error) {
      if (!this.faulty) this.options.failed(error);
      this.faulty = true;
    }
  }
}
