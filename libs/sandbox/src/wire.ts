/**
 * The messages between the API process and a child. First cell: the word; the rest in the order of these tuples.
 * `chain` and `load` are numbers given by the API process, unique per child.
 */

/** Bits of a handler's flags. */
export const FLAG = {
  /** Its patch is given to the handlers after it. */
  advances: 1,
  /** The chain ends when it fails. */
  stopsOnFailure: 2,
} as const;

/** Of each handler of a plan, in a row. */
export type HandlerCells = readonly [
  realm: number,
  handler: string,
  timeoutMs: number,
  ceilingMs: number,
  flags: number,
  stopTags: string,
];

export const HANDLER_CELLS = 6;

/** What became of one handler: `=` returned (raw), `!` failed (notes), `?` not loaded (message), `-` passed over. */
export type OutcomeCells = readonly [
  handler: number,
  kind: '=' | '!' | '?' | '-',
  text: string,
  durationMs: number,
  /** `late` or empty; or what failed: `timed_out sync`. */
  detail: string,
];

export const OUTCOME_CELLS = 5;

export type ToChild =
  | readonly [
      'realm',
      realm: number,
      account: string,
      fileName: string,
      code: string,
      guest: string,
      setup: string,
      fresh: boolean,
      /** Its handlers are entered by themselves, never together with others: it was fatal before. */
      alone: boolean,
    ]
  | readonly ['drop', realm: number]
  /** What is the same for all chains of a hook until its plugins change; `HandlerCells` in a row. */
  | readonly ['plan', plan: number, account: string, pausing: readonly string[], ...handlers: (string | number)[]]
  | readonly ['drop-plan', plan: number]
  | readonly ['run', chain: number, plan: number, input: string, args: string | readonly string[]]
  /** A chain that goes on, since its last child is no more. */
  | readonly [
      'run',
      chain: number,
      plan: number,
      input: string,
      args: string | readonly string[],
      patches: string,
      from: number,
      /** Handlers that took a child down: not run, counted as failed. */
      failed: readonly number[],
      /** One handler at a time. */
      careful: boolean,
    ]
  | readonly [
      'answer',
      chain: number,
      handler: number,
      start: number,
      call: number,
      ok: boolean,
      text: string,
      code: string | null,
    ]
  | readonly ['stop', chain: number]
  | readonly ['load', load: number, realm: number, budgetMs: number];

export type ToParent =
  /** Its number as it sees it, where nothing else tells it. */
  | readonly ['ready', pid: number]
  /** Outcomes in chain order; `isOver` when none will follow. */
  | readonly ['outcomes', chain: number, isOver: boolean, ...outcomes: (string | number)[]]
  /** The handler begins once more, as its isolate was lost through another's fault; `start` counts these. */
  | readonly ['restarted', chain: number, handler: number, start: number]
  | readonly [
      'call',
      chain: number,
      handler: number,
      start: number,
      call: number,
      answered: boolean,
      member: string,
      args: string | null,
      misfit: string | null,
    ]
  | readonly ['loaded', load: number, report: string, durationMs: number]
  | readonly ['load-failed', load: number, cause: string, message: string, line: number | null, column: number | null];
