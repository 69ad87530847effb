/**
 * Runs untrusted JavaScript within time, memory and permission. Knows no dialect: what a plugin sees and how its
 * results are read is a guest program that the dialect brings (see `guest-kit.md` beside this file).
 */
export interface Sandbox {
  /** Evaluates a realm's code once in a fresh context and returns the guest program's report. Never throws for what the code does. */
  load(realm: Realm, budgetMs: number): Promise<LoadOutcome>;
  /**
   * Starts a chain: its handlers run one after another in the account's child, ahead of the caller, each with the
   * patches of those before it. `result(i)` resolves when handler i is done. Never rejects for what plugins do.
   */
  run(chain: ChainRun): RunningChain;
  /** Drops warm realms of this plugin, whatever revision. */
  forget(account: string, pluginId: string): void;
  health(): SandboxHealth;
  close(): Promise<void>;
}

export interface SandboxHealth {
  readonly state: 'ok' | 'degraded';
  /** What hardening is missing, in words for an operator. */
  readonly missing: readonly string[];
  readonly children: number;
}

/** One plugin revision's world. Equal `account`, `pluginId` and `digest` may share a warm context (MW-13). */
export interface Realm {
  readonly account: string;
  readonly pluginId: string;
  /** Changes whenever code, config or permissions change. */
  readonly digest: string;
  readonly code: string;
  /** Name shown in stack traces. */
  readonly fileName: string;
  /** The dialect's guest program: source of one function expression, see `guest-kit.md`. */
  readonly guest: string;
  /** JSON text handed to the guest program at load: config, granted members, options. */
  readonly setup: string;
  readonly isolation: 'warm' | 'fresh';
  /** What `code` and `guest` are written in; absent: JavaScript. */
  readonly language?: 'javascript' | 'python';
}

export type LoadOutcome =
  /** `report` is the JSON text that the guest program reported after evaluation. */
  | { readonly kind: 'loaded'; readonly report: string; readonly durationMs: number }
  | {
      readonly kind: 'failed';
      readonly cause: 'syntax' | 'threw' | 'timed_out' | 'crashed';
      readonly message: string;
      readonly line: number | null;
      readonly column: number | null;
    };

export interface HandlerRun {
  readonly realm: Realm;
  /** Which handler of the realm, as the guest program names them (a hook name, a registration id). */
  readonly handler: string;
  readonly timeoutMs: number;
  /** Ceiling with all pauses, ms. Default: `timeoutMs` where nothing pauses. */
  readonly ceilingMs?: number;
  /** JSON text handed to the guest program with this call: mutable fields, members of this hook, ids. */
  readonly args: string;
  /** Whether a patch this handler returns is given to the handlers after it (not in mode `observe`). */
  readonly advances: boolean;
  /** Raw tags (first character of the raw result) after which the chain stops, e.g. `'!'`. Failures, failed loads included, are named `'failed'`. */
  readonly stopsOn: readonly string[];
}

export interface ChainRun {
  readonly account: string;
  readonly invocationId: string;
  /** JSON text of the context that the first handler gets; every handler gets its own copy. */
  readonly input: string;
  readonly handlers: readonly HandlerRun[];
  /** A handler asks something of the host. Called in order; the answer goes back unless the run was closed meanwhile. */
  readonly onCall: (call: GuestCall) => Promise<CallAnswer>;
  /** Members during whose calls the clock stands still (MW-52: `ssh.command`). */
  readonly pausingMembers: readonly string[];
  readonly signal?: AbortSignal;
}

export interface RunningChain {
  /** Resolves in chain order. After a stop, the remaining results are `not_run`. */
  result(index: number): Promise<HandlerOutcome>;
  /** Ends what still runs; remaining results are `not_run`. */
  stop(): void;
}

export type HandlerOutcome =
  /**
   * `raw` is the guest program's text: a tag character, then whatever that tag means to the dialect. `late`: the time was
   * up when the result had been read.
   */
  | { readonly kind: 'returned'; readonly raw: string; readonly durationMs: number; readonly late: boolean }
  | {
      readonly kind: 'failed';
      readonly cause: 'timed_out' | 'crashed';
      /** `sync`, `async`, `killed`; or `memory`, `stack`, `killed`. */
      readonly detail: string;
      readonly durationMs: number;
      /** Notes the guest program made before it failed (such as tokens made and not returned), JSON text or ''. */
      readonly notes: string;
    }
  /** The realm could not be loaded; the handler did not run. */
  | { readonly kind: 'not_loaded'; readonly message: string }
  | { readonly kind: 'not_run' };

export interface GuestCall {
  readonly handlerIndex: number;
  readonly pluginId: string;
  /** Counts from 0 within the handler run. */
  readonly callNumber: number;
  /** Dotted member: `log`, `fetch`, `ssh.command`, `session.peer.send` … */
  readonly member: string;
  /** JSON text of the argument array, or null when an argument is not JSON (then `misfit` says which). */
  readonly args: string | null;
  readonly misfit: string | null;
  /** Ends when the handler run was closed. */
  readonly signal: AbortSignal;
}

export type CallAnswer =
  | { readonly kind: 'value'; readonly json: string }
  | { readonly kind: 'error'; readonly message: string; readonly code?: string };

export interface SandboxOptions {
  /** Default false: `--jitless`. */
  readonly jit?: boolean;
  /** Refuse to start when the host cannot harden the children. */
  readonly require?: boolean;
  /** Accounts may share children (HOOKLEDGER_SANDBOX_SHARED). */
  readonly shared?: boolean;
  /** Most children alive at once; the least recently used idle one is ended first. Default 32. */
  readonly maxChildren?: number;
  /** Memory of one isolate in MiB. Default 128. */
  readonly isolateMiB?: number;
  /** Memory of one Python interpreter in MiB. Default 128. */
  readonly pythonMiB?: number;
  /** Most Python interpreters alive at once; the least recently used idle one is ended first. Default 16. */
  readonly maxPython?: number;
  readonly log?: (level: 'info' | 'warn' | 'error', message: string, facts?: Readonly<Record<string, unknown>>) => void;
}
