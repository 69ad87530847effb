import { createHash } from 'node:crypto';
import type { Json, JsonObject } from '#record';

/** What a handler of `before_agent_finalize` gave, as its fields were read. */
export interface FinalizeSaid {
  readonly action?: Json;
  readonly reason?: Json;
  readonly retry?: Json;
}

/** What all of them together come to. */
export interface FinalizeResult {
  readonly action?: Json;
  readonly reason?: Json;
  /** The first of `candidates`. */
  readonly retry?: Retry;
  /** Every usable retry that was asked for, in order; the later ones are taken when the first is used up. */
  readonly candidates: readonly Retry[];
}

export interface Retry extends JsonObject {
  readonly instruction: string;
}

/** Finalize beats revise beats continue, in whatever order they came (openclaw.md §12). Null: nobody said anything. */
export const mergeFinalize = (said: readonly FinalizeSaid[]): FinalizeResult | null => {
  let merged: FinalizeResult | null = null;
  for (const next of said) merged = joined(merged, next);
  return merged;
};

const joined = (merged: FinalizeResult | null, next: FinalizeSaid): FinalizeResult => {
  if (merged?.action === 'finalize') return merged;
  if (next.action === 'finalize') return reasoned('finalize', next.reason);
  if (next.action === 'revise') return revised(merged?.action === 'revise' ? merged : null, next);
  if (merged?.action === 'revise') return merged;
  if (next.action === 'continue') return reasoned('continue', next.reason);
  const { retry: _unread, ...rest } = next;
  return merged ?? { ...rest, candidates: [] };
};

const reasoned = (action: string, reason: Json | undefined): FinalizeResult => ({
  action,
  ...(reason === undefined || reason === null ? {} : { reason }),
  candidates: [],
});

const revised = (merged: FinalizeResult | null, next: FinalizeSaid): FinalizeResult => {
  const retry = usable(next.retry);
  const candidates = [...(merged?.candidates ?? []), ...(retry === null ? [] : [retry])];
  const [first] = candidates;
  return {
    ...reasoned('revise', bothReasons(merged?.reason, next.reason)),
    ...(first === undefined ? {} : { retry: first }),
    candidates,
  };
};

/** Left, a blank line, right where both say something; else the later one that is there, an empty text included. */
const bothReasons = (left: Json | undefined, right: Json | undefined): Json | undefined =>
  typeof left === 'string' && typeof right === 'string' && left !== '' && right !== ''
    ? `${left}\n\n${right}`
    : (right ?? left);

/** An instruction that is blank asks for nothing. */
const usable = (retry: Json | undefined): Retry | null => {
  if (typeof retry !== 'object' || retry === null || Array.isArray(retry)) return null;
  const { instruction } = retry as JsonObject;
  if (typeof instruction !== 'string' || instruction.trim() === '') return null;
  return { ...(retry as JsonObject), instruction: instruction.trim() };
};

/** How often a retry was asked for in a run, by its key. */
export interface RetryCounts {
  readonly [key: string]: number;
}

/** What the host makes of a result: retries counted, reasons completed. */
export interface HostFinalize {
  readonly action: 'continue' | 'revise' | 'finalize';
  readonly reason?: string;
  /** Keys that were asked for, one more time each: what a run's counts go on with. */
  readonly asked: readonly string[];
}

/**
 * The host's accounting (openclaw.md §12): a revise without a retry needs a reason; a retry is granted `maxAttempts`
 * times a run (1 by default), then the next one is taken, then the answer stands as it is.
 */
export const hostFinalize = (result: FinalizeResult | null, counts: RetryCounts): HostFinalize => {
  const reason = text(result?.reason);
  if (result?.action === 'finalize') return { action: 'finalize', ...(reason === null ? {} : { reason }), asked: [] };
  if (result?.action !== 'revise') return { action: 'continue', asked: [] };
  if (result.candidates.length === 0)
    return reason === null ? { action: 'continue', asked: [] } : { action: 'revise', reason, asked: [] };
  const asked: string[] = [];
  for (const retry of result.candidates) {
    const key = retryKey(retry);
    const before =
      (Object.hasOwn(counts, key) ? (counts[key] ?? 0) : 0) + asked.filter((other) => other === key).length;
    asked.push(key);
    if (before + 1 <= maxAttempts(retry))
      return { action: 'revise', reason: instructed(reason, retry.instruction), asked };
  }
  return { action: 'continue', asked };
};

const retryKey = (retry: Retry): string => {
  const named = text(retry.idempotencyKey);
  return named ?? `instruction:${createHash('sha256').update(retry.instruction).digest('hex')}`;
};

const maxAttempts = ({ maxAttempts: most }: Retry): number =>
  typeof most === 'number' && Number.isFinite(most) ? Math.max(1, Math.floor(most)) : 1;

const instructed = (reason: string | null, instruction: string): string => {
  if (reason === null) return instruction;
  return reason.includes(instruction) ? reason : `${reason}\n\n${instruction}`;
};

const text = (value: Json | undefined): string | null =>
  typeof value === 'string' && value.trim() !== '' ? value.trim() : null;
