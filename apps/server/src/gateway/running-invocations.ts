import { Injectable } from '@nestjs/common';

/** The chains that this process runs now. */
@Injectable()
export class RunningInvocations {
  private readonly running = new Set<string>();

  /** Counts as running until `end` settles, whichever way. */
  until(account: string, invocationId: string, end: Promise<unknown>): void {
    const key = keyOf(account, invocationId);
    this.running.add(key);
    const leave = (): void => void this.running.delete(key);
    end.then(leave, leave);
  }

  get size(): number {
    return this.running.size;
  }

  has(account: string, invocationId: string): boolean {
    return this.running.has(keyOf(account, invocationId));
  }
}

const keyOf = (account: string, invocationId: string): string => `${account}\0${invocationId}`;
