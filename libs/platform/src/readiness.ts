import { Injectable } from '@nestjs/common';

/** How a part is. */
export interface PartState {
  readonly state: 'ok' | 'degraded' | 'down' | 'disabled';
  /** What stands for the part in the report instead of `state`: a lag, say. */
  readonly value?: number | string | null;
  /** In words for an operator: what is wrong and what it means. */
  readonly why?: string;
  readonly [fact: string]: unknown;
}

/** Each part with one word or number, and under `details` what else there is to say about it. */
export interface ReadinessReport {
  readonly status: 'ready' | 'not_ready';
  readonly details: Readonly<Record<string, unknown>>;
  readonly [part: string]: unknown;
}

interface Part {
  /** Hooks cannot be fired while it is `down`. */
  readonly essential: boolean;
  readonly look: () => Promise<PartState>;
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

  /** `look` may throw: the part is then `down`. A part that is registered again looks the new way. */
  register(name: string, look: () => Promise<PartState>, weight: 'essential' | 'informative' = 'informative'): void {
    this.parts.set(name, { look, essential: weight === 'essential' });
  }

  /** From now on not ready: a balancer should send nobody here any more. */
  stop(): void {
    this.stopping = true;
  }

  async report(): Promise<ReadinessReport> {
    const looks = [...this.parts].map(async ([name, part]) => [name, await lookAt(part), part.essential] as const);
    const seen = await Promise.all(looks);
    const broken = seen.some(([, { state }, essential]) => essential && state === 'down');
    const shown = seen.map(([name, { state, value }]) => [name, value === undefined ? state : value] as const);
    const details = seen.flatMap(([name, { state, value: _, ...facts }]) =>
      Object.keys(facts).length === 0 ? [] : [[name, { state, ...facts }] as const],
    );
    return {
      status: broken || this.stopping ? 'not_ready' : 'ready',
      ...Object.fromEntries(shown),
      details: Object.fromEntries(details),
    };
  }
}

const lookAt = async (part: Part): Promise<PartState> => {
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
