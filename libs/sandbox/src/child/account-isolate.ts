import { randomUUID } from 'node:crypto';
import type ivm from 'isolated-vm';
import { BOOTSTRAP, ENTER } from './bootstrap.js';
import { DRIVE, DRIVER } from './driver.js';
import { monotonicMs } from '../marker.js';

export interface RealmSource {
  readonly id: number;
  readonly account: string;
  readonly fileName: string;
  readonly code: string;
  readonly guest: string;
  readonly setup: string;
  readonly fresh: boolean;
}

/** One context with its plugin in it. It serves one handler run at a time. */
export interface LiveRealm {
  /** The number the driver knows it by. */
  readonly id: number;
  readonly source: RealmSource;
  readonly context: ivm.Context;
  /** The realm's one function, see `bootstrap.ts`. */
  readonly enter: ivm.Reference<(...args: Given[]) => string>;
  /** What the guest program reported right after the plugin's code had run: from then on the handlers are fixed. */
  readonly report: string;
}

type Given = string | number | boolean | null | ivm.Dereference<unknown>;

interface Driver {
  readonly drive: ivm.Reference<(...args: Given[]) => string>;
  readonly signal: ivm.Reference<(id: number, state: string) => boolean>;
}

export type Opened =
  | { readonly kind: 'opened'; readonly realm: LiveRealm }
  | {
      readonly kind: 'failed';
      readonly cause: 'syntax' | 'threw' | 'timed_out' | 'crashed';
      readonly message: string;
      readonly line: number | null;
      readonly column: number | null;
    };

/**
 * Contexts that were made and given up before the isolate is retired: released contexts are only collected by a full GC,
 * which creating contexts does not start, and an isolate of 64 MiB died after 414 of them.
 */
const MAX_DEAD_CONTEXTS = 64;
/**
 * Contexts up to which those that runs at the same time needed are kept, about 0.2 MiB each; beyond it, one of each
 * plugin revision is.
 */
const MAX_SPARE_CONTEXTS = 160;

/** The isolate of one account with the warm realms of its plugins. It lives until it is lost, retired or idle. */
export class AccountIsolate {
  readonly isolate: ivm.Isolate;
  /** Handler runs that are in it now. */
  active = 0;
  /** Of the driver's walk: how many handlers were done, and when; each time a pair. */
  ticks: number[] = [];
  /** What the driver's walk left when it came to its end. */
  said = '';
  /** Plans that the driver was told. */
  readonly #plans = new Set<number>();
  readonly #vm: typeof ivm;
  #driver: Driver | null = null;
  /** Warm realms that no run is using, by the number of their source; the last one was used last. */
  readonly #free = new Map<number, LiveRealm[]>();
  readonly #boots = new Map<string, ivm.Script>();
  #made = 0;
  #dead = 0;

  constructor(vm: typeof ivm, memoryMiB: number) {
    this.#vm = vm;
    this.isolate = new vm.Isolate({ memoryLimit: memoryMiB });
  }

  /** No new run should start here; once none is active it can be disposed. */
  get isSpent(): boolean {
    return this.#dead >= MAX_DEAD_CONTEXTS || this.isolate.isDisposed;
  }

  /** A warm realm of this source that no run is using. */
  free(sourceId: number): LiveRealm | undefined {
    return this.#free.get(sourceId)?.at(-1);
  }

  take(realm: LiveRealm): void {
    const free = this.#free.get(realm.source.id);
    const at = free?.lastIndexOf(realm) ?? -1;
    if (at >= 0) free?.splice(at, 1);
  }

  /** Gives a realm back after its run: the next one may have it, where it is warm and still wanted. */
  give(realm: LiveRealm, isWanted: boolean): void {
    if (this.isolate.isDisposed) return;
    const free = this.#free.get(realm.source.id);
    if (
      realm.source.fresh ||
      !isWanted ||
      (free !== undefined && free.length > 0 && this.#made - this.#dead > MAX_SPARE_CONTEXTS)
    )
      this.#release(realm);
    else if (free === undefined) this.#free.set(realm.source.id, [realm]);
    else free.push(realm);
  }

  drop(sourceId: number): void {
    if (this.isolate.isDisposed) return;
    for (const realm of this.#free.get(sourceId) ?? []) this.#release(realm);
    this.#free.delete(sourceId);
  }

  #release(realm: LiveRealm): void {
    this.#dead++;
    if (!realm.source.fresh) this.#driver?.drive.applySync(undefined, [DRIVE.drop, realm.id]);
    realm.enter.release();
    realm.context.release();
  }

  dispose(): void {
    if (!this.isolate.isDisposed) this.isolate.dispose();
  }

  /** Makes a context and evaluates the guest program and the plugin in it, the latter within `budgetMs`. */
  open(source: RealmSource, budgetMs: number): Opened {
    const end = `__end_${randomUUID().replaceAll('-', '')}`;
    let script: ivm.Script;
    try {
      script = this.isolate.compileScriptSync(`${source.code}\n;${end}();`, { filename: source.fileName });
    } catch (error) {
      return this.#syntaxFault(source, error);
    }
    this.#made++;
    const context = this.isolate.createContextSync();
    const enter = this.#boot(source.guest).runSync(context, { reference: true }) as unknown as LiveRealm['enter'];
    enter.applySync(undefined, [ENTER.setup, 0, source.setup, end]);
    this.#hide(context, end);
    const started = performance.now();
    try {
      script.runSync(context, { timeout: Math.max(1, Math.ceil(budgetMs)) });
    } catch (error) {
      const fault = this.#loadFault(source, enter, error, performance.now() - started, budgetMs);
      if (fault !== null) {
        this.#dead++;
        return fault;
      }
    }
    script.release();
    const report = enter.applySync(undefined, [ENTER.report]);
    const realm: LiveRealm = { id: this.#made, source, context, enter, report };
    if (!source.fresh) this.#join(realm);
    return { kind: 'opened', realm };
  }

  /** The place is that of the plugin's own text: the line behind it is only there for `loaded`. */
  #syntaxFault(source: RealmSource, error: unknown): Opened {
    let plain = error;
    try {
      this.isolate.compileScriptSync(source.code, { filename: source.fileName }).release();
    } catch (own) {
      plain = own;
    }
    if (this.isolate.isDisposed) return crashed;
    const said = textOf(plain);
    const place = /^(.*) \[.*:(\d+):(\d+)\]$/s.exec(said);
    if (place === null)
      return { kind: 'failed', cause: 'syntax', message: said.slice(0, 500), line: null, column: null };
    const [, message = said, line, column] = place;
    return {
      kind: 'failed',
      cause: 'syntax',
      message: message.slice(0, 500),
      line: Number(line),
      column: Number(column),
    };
  }

  /** Null when the plugin's code ran to its end and only left a rejected promise behind. */
  #loadFault(
    source: RealmSource,
    enter: LiveRealm['enter'],
    error: unknown,
    tookMs: number,
    budgetMs: number,
  ): Opened | null {
    if (this.isolate.isDisposed) return crashed;
    if (isTimeout(error, tookMs, budgetMs)) {
      return { kind: 'failed', cause: 'timed_out', message: 'Loading took too long.', line: null, column: null };
    }
    if (enter.applySync(undefined, [ENTER.loaded]) === 'yes') return null;
    const stack = typeof error === 'object' && error !== null && 'stack' in error ? String(error.stack) : '';
    const at = stack.indexOf(`${source.fileName}:`);
    const [line, column] =
      at < 0 ? [] : stack.slice(at + source.fileName.length + 1, at + source.fileName.length + 30).split(/[:)\n]/);
    return {
      kind: 'failed',
      cause: 'threw',
      message: textOf(error).slice(0, 500),
      line: line !== undefined && /^\d+$/.test(line) ? Number(line) : null,
      column: column !== undefined && /^\d+$/.test(column) ? Number(column) : null,
    };
  }

  /** From a property, which a plugin would see, to a name of the script's scope, which nobody finds who does not know it. */
  #hide(context: ivm.Context, name: string): void {
    const script = this.isolate.compileScriptSync(`const ${name} = globalThis.${name}; delete globalThis.${name};`);
    script.runSync(context);
    script.release();
  }

  /** The driver's function; the driver lives in a context of its own. */
  get drive(): Driver['drive'] {
    return this.#driven().drive;
  }

  /** Tells the driver of a plan: name, flags and stop tags of each handler. */
  learn(planId: number, cells: readonly (string | number)[]): void {
    if (this.#plans.has(planId)) return;
    this.#plans.add(planId);
    this.drive.applySync(undefined, [DRIVE.plan, planId, 0, 0, 0, 0, ...cells]);
  }

  forgetPlan(planId: number): void {
    if (!this.#plans.delete(planId) || this.isolate.isDisposed) return;
    this.drive.applySync(undefined, [DRIVE.dropPlan, planId]);
  }

  #driven(): Driver {
    if (this.#driver !== null) return this.#driver;
    const context = this.isolate.createContextSync();
    const tick = new this.#vm.Callback(
      (what: number | string) => {
        if (typeof what === 'string') this.said = what;
        else this.ticks.push(what, monotonicMs());
      },
      { sync: true },
    );
    const made = context.evalClosureSync(
      `'use strict';return (${DRIVER})($0,$1,$2)`,
      [tick, ENTER.begin, ENTER.collect],
      {
        result: { reference: true },
      },
    ) as ivm.Reference<Record<string, unknown>>;
    this.#driver = {
      drive: made.getSync('drive', { reference: true }) as unknown as Driver['drive'],
      signal: made.getSync('signal', { reference: true }) as unknown as Driver['signal'],
    };
    for (const free of this.#free.values()) for (const realm of free) this.#join(realm);
    return this.#driver;
  }

  #join(realm: LiveRealm): void {
    if (this.#driver === null) return;
    realm.enter.applySync(undefined, [ENTER.join, 0, this.#driver.signal.derefInto()]);
    this.#driver.drive.applySync(undefined, [DRIVE.add, realm.id, realm.enter.derefInto()]);
  }

  #boot(guest: string): ivm.Script {
    const known = this.#boots.get(guest);
    if (known !== undefined) return known;
    const script = this.isolate.compileScriptSync(`'use strict';(${BOOTSTRAP})((${guest}\n))`, {
      filename: 'hookledger:guest',
    });
    this.#boots.set(guest, script);
    return script;
  }
}

const crashed: Opened = {
  kind: 'failed',
  cause: 'crashed',
  message: 'Loading used too much memory.',
  line: null,
  column: null,
};

/** isolated-vm says so in words only, which a plugin can say too; but a plugin cannot have used up the time and go on. */
export const isTimeout = (error: unknown, tookMs: number, budgetMs: number): boolean =>
  tookMs >= budgetMs && error instanceof Error && error.message === 'Script execution timed out.';

const textOf = (thrown: unknown): string => {
  if (thrown instanceof Error)
    return thrown.name === 'SyntaxError' ? thrown.message : `${thrown.name}: ${thrown.message}`;
  return String(thrown);
};
