import type { ChainRun, HandlerOutcome, HandlerRun, Realm, Sandbox } from '../index.js';
import { testGuest } from './guest.js';

let plugins = 0;

/** A plugin of its own for every call, whose handler `it` is this JavaScript expression. */
export const realmOf = (code: string, more: Partial<Realm> = {}): Realm => {
  const pluginId = `plugin-${++plugins}`;
  return {
    account: 'acme',
    pluginId,
    digest: '1',
    code,
    fileName: `${pluginId}.js`,
    guest: testGuest,
    setup: '{}',
    isolation: 'warm',
    ...more,
  };
};

export const handlerOf = (
  expression: string,
  more: Partial<HandlerRun> = {},
  realm: Partial<Realm> = {},
): HandlerRun => ({
  realm: realmOf(`on.it = ${expression}`, realm),
  handler: 'it',
  timeoutMs: 300,
  args: '{}',
  advances: true,
  stopsOn: [],
  ...more,
});

export interface Given extends Partial<ChainRun> {
  /** The value in the context. */
  readonly value?: unknown;
}

export const chainOf = (handlers: readonly HandlerRun[], { value = 'a', ...more }: Given = {}): ChainRun => ({
  account: handlers[0]?.realm.account ?? 'acme',
  invocationId: 'invocation',
  input: JSON.stringify({ value }),
  handlers,
  onCall: () => Promise.resolve({ kind: 'value', json: '"ok"' }),
  pausingMembers: ['slow'],
  ...more,
});

/** Runs a chain to its end. */
export const outcomesOf = (
  sandbox: Sandbox,
  handlers: readonly HandlerRun[],
  given: Given = {},
): Promise<HandlerOutcome[]> => {
  const running = sandbox.run(chainOf(handlers, given));
  return Promise.all(handlers.map((_, index) => running.result(index)));
};

/** What a handler gave: its raw result, `=` for unchanged, or in words what became of it. */
export const said = (outcome: HandlerOutcome | undefined): string => {
  switch (outcome?.kind) {
    case 'returned':
      return outcome.raw;
    case 'failed':
      return `${outcome.cause} ${outcome.detail}`;
    case 'not_loaded':
      return `not loaded: ${outcome.message}`;
    default:
      return outcome?.kind ?? 'nothing';
  }
};

/** The raw result of a handler that changed the value to this. */
export const changedTo = (value: unknown): string => `~${JSON.stringify({ value })}\n`;
