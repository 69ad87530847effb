/**
 * The messages between the API process and a child. First cell: the word; the rest in the order of these tuples.
 * `chain` and `load` are numbers given by the API process, unique per child.
 */
export type HandlerCells = readonly [
  realm: number,
  handler: string,
  timeoutMs: number,
  ceilingMs: number,
  args: string,
  advances: boolean,
  /** Tags in one string; `failed` apart. */
  stopTags: string,
  stopsOnFailure: boolean,
];

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
      handlers: readonly HandlerCells[],
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
  | readonly ['ready', pid: number]
  | readonly ['returned', chain: number, handler: number, raw: string, durationMs: number, late: boolean]
  | readonly [
      'failed',
      chain: number,
      handler: number,
      cause: string,
      detail: string,
      durationMs: number,
      notes: string,
    ]
  | readonly ['not-loaded', chain: number, handler: number, message: string]
  /** A handler that is in `failed` was passed over. */
  | readonly ['skipped', chain: number, handler: number]
  | readonly ['end', chain: number]
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
