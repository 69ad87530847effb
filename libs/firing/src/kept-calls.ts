import { afterTimer } from './timer.js';
import type { CallAnswer, GuestCall, HandlerOutcome, Realm, Sandbox } from '#sandbox';

/** Something of a plugin's that is asked outside any hook. */
export interface KeptCall {
  readonly account: string;
  readonly realm: Realm;
  /** Names the call to the sandbox. */
  readonly id: string;
  /** The name under which the realm knows it. */
  readonly handler: string;
  /** What it is told, JSON. */
  readonly context: object;
}

/** Longest that a projector may take, and a cleanup (openclaw.md §3), ms. */
const limits = { project: 1_000, cleanup: 5_000 } as const;

/** What a projector made of a session's state: JSON text; null: nothing, or it failed. */
export const projectState = async (sandbox: Sandbox, call: KeptCall): Promise<string | null> => {
  const outcome = await asked(sandbox, 'project', call);
  return outcome.kind === 'returned' && outcome.raw.startsWith('+') ? outcome.raw.slice(1) : null;
};

/** How a cleanup ended; `error` is what the plugin said of it. */
export interface CleanupEnd {
  readonly outcome: 'done' | 'failed' | 'timed_out' | 'not_loaded';
  readonly error: string | null;
  readonly durationMs: number;
}

/** Calls a plugin's cleanup. Never rejects for what the plugin does. */
export const callCleanup = async (sandbox: Sandbox, call: KeptCall): Promise<CleanupEnd> => {
  const outcome = await asked(sandbox, 'cleanup', call);
  switch (outcome.kind) {
    case 'returned':
      return { ...returned(outcome.raw), durationMs: Math.round(outcome.durationMs) };
    case 'failed': {
      const timedOut = outcome.cause === 'timed_out';
      const error = timedOut ? `timed out after ${String(limits.cleanup)}ms` : outcome.detail;
      return { outcome: timedOut ? 'timed_out' : 'failed', error, durationMs: Math.round(outcome.durationMs) };
    }
    case 'not_loaded':
      return { outcome: 'not_loaded', error: outcome.message, durationMs: 0 };
    case 'not_run':
      return { outcome: 'not_loaded', error: null, durationMs: 0 };
  }
};

const returned = (raw: string): Pick<CleanupEnd, 'outcome' | 'error'> => {
  if (raw.startsWith('.')) return { outcome: 'done', error: null };
  if (raw.startsWith('-')) return { outcome: 'not_loaded', error: null };
  return { outcome: 'failed', error: wordsIn(raw) };
};

/** `?[code, text]`, as the guest program says it; a realm that was taken over says anything. */
const wordsIn = (raw: string): string | null => {
  try {
    const said: unknown = JSON.parse(raw.slice(1));
    return Array.isArray(said) && typeof said[1] === 'string' ? said[1].slice(0, 2000) : null;
  } catch {
    return null;
  }
};

const asked = (sandbox: Sandbox, kind: keyof typeof limits, call: KeptCall): Promise<HandlerOutcome> => {
  const { account, realm, id, handler, context } = call;
  const running = sandbox.run({
    account,
    invocationId: id,
    input: JSON.stringify({ handler, context }),
    handlers: [{ realm, handler: kind, timeoutMs: limits[kind], args: '{}', advances: false, stopsOn: [] }],
    onCall,
    pausingMembers: [],
  });
  return running.result(0);
};

/** It belongs to no invocation, and reaches nothing outside. */
const onCall = (call: GuestCall): Promise<CallAnswer> => {
  if (call.member === 'timer') return afterTimer(call);
  return Promise.resolve(
    call.member === 'log'
      ? { kind: 'value', json: 'null' }
      : { kind: 'error', code: 'not_granted', message: `host.${call.member} is not granted here` },
  );
};
