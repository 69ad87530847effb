import { Injectable } from '@nestjs/common';

/** A part's state, as `/health/ready` lists it. */
export interface PartState {
  readonly state: 'ok' | 'degraded' | 'down' | 'disabled';
  /** In words for an operator: what is wrong and what it means. */
  readonly why?: string;
  readonly [fact: string]: unknown;
}

export interface ReadinessReport {
  readonly status: 'ready' | 'not_ready';
  readonly [part: string]: unknown;
}

interface Part {
  /** Hooks cannot be fired while it is `down`. */
  readonly essential: boolean;
  readonly look: () => Promise<unknown>;
}

/** How long one part may take to say how it is. */
const patienceMs = 2_000;

/**
 * What `/health/ready` says. Every part registers a look at itself; only an essential one that is `down` makes the
 * program not ready, since 503 is for "hooks cannot be fired" alone (api.md, operating).
 */
@Injectable()
export class Readiness {
  private readonly parts = new Map<string, Part>();
  private stopping = false;

  /** `look` returns a `PartState`, or a plain fact such as a lag. It may throw: the part is then `down`. */
  register(name: string, look: () => Promise<unknown>, weight: 'essential' | 'informative' = 'informative'): void {
    this.parts.set(name, { look, essential: weight === 'essential' });
  }

  /** From now on not ready: a balancer should send nobody here any more. */
  stop(): void {
    this.stopping = true;
  }

  async report(): Promise<ReadinessReport> {
    const looks = [...this.parts].map(async ([name, part]) => [name, await lookAt(part), part.essential] as const);
    const seen = await Promise.all(looks);
    const broken = seen.some(([, state, essential]) => essential && isDown(state));
    const states = Object.fromEntries(seen.map(([name, state]) => [name, state]));
    return { status: broken || this.stopping ? 'not_ready' : 'ready', ...states };
  }
}

const isDown = (state: unknown): boolean => (state as PartState | null)?.state === 'down';

const lookAt = async (part: Part): Promise<unknown> => {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<PartState>((resolve) => {
    timer = setTimeout(() => resolve({ state: 'down', why: 'it does not answer' }), patienceMs);
  });
  const failed = (): PartState => ({ state: 'down', why: 'it cannot be reached' });
  try {
    return await Promise.race([part.look().catch(failed), late]);
  } finally {
    clearTimeout(timer);
  }
};
