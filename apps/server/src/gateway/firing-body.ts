import type { Answer } from '#firing';
import { queryInt } from '#platform';
import type { Json } from '#record';
import type { FireResult } from './fire-hook.js';

/** `?wait=` of firings and answers (api.md, `held`). */
export const waitFields = {
  wait: queryInt('Seconds that the request stays open for a chain that takes its time.', {
    least: 0,
    most: 55,
    absent: 25,
  }),
} as const;

/** The answer to a firing whose chain still runs: it is had from `answers/{invocationId}` later. */
export interface RunningBody {
  readonly invocationId: string;
  readonly turnId: string;
  readonly running: true;
}

/** What a firing is answered with. */
export const bodyOf = (result: FireResult): Answer | RunningBody =>
  result.kind === 'answered'
    ? result.answer
    : { invocationId: result.invocationId, turnId: result.turnId, running: true };

interface Hidden {
  readonly hidden: true;
  /** Bytes of JSON text. */
  readonly size: number;
}

/** An answer for a key that sees no content (api.md, content). */
export interface HiddenAnswer extends Omit<
  Answer,
  'value' | 'cancellation' | 'handlers' | 'gate' | 'notice' | 'retries'
> {
  readonly value: Hidden | null;
  readonly cancellation: object | null;
  readonly handlers: readonly object[];
  readonly gate?: Hidden | null;
  readonly notice?: Hidden | null;
  readonly retries?: Hidden | null;
}

const hide = (value: Json): Hidden | null =>
  value === null ? null : { hidden: true, size: Buffer.byteLength(JSON.stringify(value)) };

/** Hides what agents, people and plugins wrote; ids, outcomes, codes and times stay. */
export const withoutContent = ({ gate, notice, retries, ...answer }: Answer): HiddenAnswer => ({
  ...answer,
  ...(gate === undefined ? {} : { gate: hide(gate) }),
  ...(notice === undefined ? {} : { notice: hide(notice) }),
  ...(retries === undefined ? {} : { retries: hide(retries) }),
  value: hide(answer.value),
  cancellation: answer.cancellation && { ...answer.cancellation, reason: hide(answer.cancellation.reason) },
  handlers: answer.handlers.map((handler) => ({
    ...handler,
    warnings: handler.warnings.map(({ code, detail }) => ({ code, detail: hide(detail) })),
  })),
});
