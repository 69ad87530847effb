import { part, type CallOptions, type Connection } from './connection.js';
import type { Cancellation } from './answer.js';
import { HookledgerProblem } from './problems.js';
import { pause } from './backoff.js';

/** What a step of a clear or a cron run may say, for the hooks that it comes to. */
export interface Step {
  readonly turnId?: string | null;
  readonly correlationId?: string | null;
  readonly occurredAt?: string | null;
  readonly dataSubject?: string | null;
}

export interface ClearStart extends Step {
  /** The runtime's own id of this clear, for as long as it repeats it. */
  readonly clearId: string;
  readonly agentId: string;
  /** What the user typed after the command. */
  readonly trailingText?: string | null;
  readonly messageCount: number;
  readonly subagentCount: number;
  readonly peerThreadCount: number;
}

export interface ClearCompletion extends Step {
  readonly deletedMessageCount: number;
  readonly deletedSubagentCount: number;
  readonly deletedPeerThreadCount: number;
  /** Puts a clear on record that was never started. */
  readonly agentId?: string | null;
}

export interface StartedClear {
  readonly sessionId: string;
  readonly clearId: string;
  /** `cleared`: it was completed before, so that no hook ran. */
  readonly state: 'open' | 'cleared';
  readonly invocationId: string | null;
}

export interface CompletedClear {
  readonly sessionId: string;
  readonly clearId: string;
  readonly state: 'cleared';
  readonly invocationId: string | null;
  readonly position: string;
}

/** A clear whose deletion is done and whose completion the server may not know yet. */
export interface PendingCompletion {
  readonly sessionId: string;
  readonly clearId: string;
  readonly completion: ClearCompletion;
}

/** The runtime's own table of pending completions. A row is written in the transaction of the deletion. */
export interface PendingCompletions {
  list(): Promise<readonly PendingCompletion[]>;
  remove(completion: PendingCompletion): Promise<void>;
}

/** Clears of sessions: `session.cleared` is recorded once for each, whatever is repeated. */
export class Clears {
  constructor(private readonly connection: Connection) {}

  /** Before anything is deleted. Repeats until answered, within the deadline. */
  async start(sessionId: string, body: ClearStart, options: CallOptions = {}): Promise<StartedClear> {
    const path = `sessions/${part(sessionId)}/clears`;
    return (await this.connection.send({ method: 'POST', path, body }, options)).body as StartedClear;
  }

  /** After everything was deleted. */
  async complete(
    sessionId: string,
    clearId: string,
    body: ClearCompletion,
    options: CallOptions = {},
  ): Promise<CompletedClear> {
    const path = `sessions/${part(sessionId)}/clears/${part(clearId)}/completion`;
    return (await this.connection.send({ method: 'POST', path, body }, options)).body as CompletedClear;
  }

  /**
   * Completes what is pending, one after another, and removes what the server has answered: at start, and after every
   * deletion. Goes on until all of it is told, or the signal or the deadline (default: none) ends it. A completion that
   * is past its retention (410) is removed too.
   */
  async settle(pending: PendingCompletions, options: CallOptions = {}): Promise<number> {
    const all = await pending.list();
    for (const one of all) {
      await this.complete(one.sessionId, one.clearId, one.completion, {
        deadlineMs: Infinity,
        reachMs: Infinity,
        ...options,
      }).catch((error: unknown) => {
        if (!(error instanceof HookledgerProblem) || error.status !== 410) throw error;
      });
      await pending.remove(one);
    }
    return all.length;
  }
}

export interface CronJob {
  readonly name: string;
  /** `cron_job`, `heartbeat`, or another kind of schedule. */
  readonly kind: string;
  readonly agentId?: string | null;
  /** A cron pattern; null ends the declaration. */
  readonly schedule?: string | null;
  /** IANA name; default UTC. */
  readonly timeZone?: string | null;
  readonly graceSeconds?: number | null;
}

export interface DeclaredJob extends Required<CronJob> {
  readonly jobId: string;
  readonly declaredAt: string;
  readonly version: number;
}

export interface CronSlot extends Step {
  /** When the job was due: it names the slot. */
  readonly slotAt: string;
  readonly agentId: string;
  readonly kind: string;
  readonly name: string;
  readonly prompt: string;
  readonly leaseSeconds?: number | null;
}

export interface SlotDecision {
  readonly runId: string;
  readonly jobId: string;
  readonly slotAt: string;
  readonly decision: 'run' | 'cancelled' | 'overlapped';
  /** What the mission is to do, as the handlers left it; null where it does not run. */
  readonly prompt: string | null;
  readonly cancellation: Cancellation | null;
  readonly invocationId: string | null;
}

export interface Lease {
  readonly runId: string;
  readonly state: 'open';
  readonly sessionId: string | null;
  readonly leaseUntil: string;
}

export interface CompletedRun {
  readonly runId: string;
  readonly state: 'closed';
  readonly status: string;
  readonly notified: boolean;
  readonly invocationId: string | null;
}

/** A mission of a slot, as `cron.run` gives it to the one who carries it out. */
export interface Mission {
  readonly runId: string;
  readonly prompt: string;
  /** Aborted when the run is not open any more: its lease ended, or somebody closed it. */
  readonly signal: AbortSignal;
  /** Says which session the mission has. */
  readonly session: (sessionId: string) => Promise<void>;
}

/** What a mission ends with. */
export interface MissionEnd extends Step {
  readonly status: string;
  readonly sessionId?: string | null;
}

/** What became of a slot. */
export type SlotEnd =
  | { readonly decision: 'cancelled' | 'overlapped'; readonly slot: SlotDecision }
  | { readonly decision: 'run'; readonly slot: SlotDecision; readonly completed: CompletedRun };

/** A run without a lease of its own is held for an hour (docs/lifecycles.md). */
const ordinaryLeaseSeconds = 3600;

/** Cron jobs: one open run for each, a slot once. */
export class Cron {
  constructor(private readonly connection: Connection) {}

  /** When a job is due, so that slots which never come are seen. */
  async declare(jobId: string, body: CronJob, options: CallOptions = {}): Promise<DeclaredJob> {
    const request = { method: 'PUT', path: `cron-jobs/${part(jobId)}`, body } as const;
    return (await this.connection.send(request, options)).body as DeclaredJob;
  }

  /** A slot is due: whether it runs. The same job and slot always give the same run. */
  async slot(jobId: string, body: CronSlot, options: CallOptions = {}): Promise<SlotDecision> {
    const request = { method: 'POST', path: `cron-jobs/${part(jobId)}/slots`, body, heldMs: 50_000 } as const;
    return (await this.connection.send(request, options)).body as SlotDecision;
  }

  /** It lives: the lease begins anew. */
  heartbeat(runId: string, leaseSeconds?: number, options: CallOptions = {}): Promise<Lease> {
    return this.lease(runId, 'heartbeat', leaseSeconds === undefined ? {} : { leaseSeconds }, options);
  }

  /** The mission's session is known. */
  session(runId: string, sessionId: string, options: CallOptions = {}): Promise<Lease> {
    return this.lease(runId, 'session', { sessionId }, options);
  }

  /** It came to its end. */
  async complete(runId: string, body: MissionEnd, options: CallOptions = {}): Promise<CompletedRun> {
    const request = { method: 'POST', path: `cron-runs/${part(runId)}/completion`, body, heldMs: 50_000 } as const;
    return (await this.connection.send(request, options)).body as CompletedRun;
  }

  /**
   * A whole slot: takes it, carries the mission out while it beats, and reports its end. A mission that throws is closed
   * with the status `failed`, and the error goes on.
   */
  async run(
    jobId: string,
    body: CronSlot,
    mission: (mission: Mission) => Promise<MissionEnd>,
    options: CallOptions = {},
  ): Promise<SlotEnd> {
    const slot = await this.slot(jobId, body, options);
    if (slot.decision !== 'run') return { decision: slot.decision, slot };
    const ended = new AbortController();
    const lost = new AbortController();
    const everyMs = Math.max(1, ((body.leaseSeconds ?? ordinaryLeaseSeconds) * 1000) / 3);
    const beating = this.beat(slot.runId, everyMs, ended.signal, lost);
    try {
      const end = await mission({
        runId: slot.runId,
        prompt: slot.prompt ?? '',
        signal: lost.signal,
        session: async (sessionId) => {
          await this.session(slot.runId, sessionId);
        },
      });
      return { decision: 'run', slot, completed: await this.complete(slot.runId, end, options) };
    } catch (error) {
      // The run may be closed already, and its session unknown: the error of the mission is the one to be told.
      await this.complete(slot.runId, { status: 'failed' }, options).catch(() => undefined);
      throw error;
    } finally {
      ended.abort();
      await beating;
    }
  }

  private async beat(runId: string, everyMs: number, ended: AbortSignal, lost: AbortController): Promise<void> {
    while (await pausedFor(everyMs, ended)) {
      try {
        await this.heartbeat(runId, undefined, { signal: ended });
      } catch (error) {
        // Away for a while is no end; the next beat may come through.
        if (!(error instanceof HookledgerProblem) || error.code !== 'run_not_open') continue;
        lost.abort(error);
        return;
      }
    }
  }

  private async lease(runId: string, step: string, body: object, options: CallOptions): Promise<Lease> {
    const request = { method: 'POST', path: `cron-runs/${part(runId)}/${step}`, body } as const;
    return (await this.connection.send(request, options)).body as Lease;
  }
}

/** False: the signal came first. */
const pausedFor = (ms: number, signal: AbortSignal): Promise<boolean> =>
  pause(ms, signal).then(
    () => true,
    () => false,
  );
