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
  /** It is entered by itself, never together with others: it was slow or fatal before. */
  alone: 4,
} as const;

/** Of each handler, in a row; 0 stands for the same text as the handler before. */
export type HandlerCells = readonly [
  realm: number,
  handler: string | 0,
  timeoutMs: number,
  ceilingMs: number,
  args: string | 0,
  flags: number,
  stopTags: string | 0,
];

export const HANDLER_CELLS = 7;

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
    ]
  | readonly ['drop', realm: number]
  | readonly [
      'run',
      chain: number,
      account: string,
      input: string,
      patches: string,
      from: number,
      /** Handlers that failed in a child that is no more: not run, counted as failed. */
      failed: readonly number[],
      pausing: readonly string[],
      ...handlers: (string | number)[],
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
  | readonly ['load', load: number, account: string, realm: number, budgetMs: number];

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
