import type ivm from 'isolated-vm';
import { monotonicMs } from '../marker.js';
import type { HandlerCells, ToParent } from '../wire.js';
import { AccountIsolate, isTimeout } from './account-isolate.js';
import type { LiveRealm, RealmSource } from './account-isolate.js';
import { ENTER } from './bootstrap.js';

type Marks = (place: 0 | 1 | 2, id: number, handlerIndex: number, since: number, deadline: number) => void;

/** The handler of a chain that has begun and is not done. */
interface Run {
  readonly id: number;
  readonly realm: LiveRealm;
  readonly home: AccountIsolate;
  /** How often this handler began, its isolate having been lost through others. */
  readonly start: number;
  /** Time on its own clock, ms. */
  usedMs: number;
  /** When it began, with all pauses. */
  readonly beganAt: number;
  /** Own clock at rest since then; 0 while it runs. */
  waitingSince: number;
  /** Time that others had spent in this process when the wait began. */
  busyBefore: number;
  openCalls: number;
  openPauses: number;
  timer: NodeJS.Timeout | undefined;
  /** Calls that stop the clock, by number. */
  readonly pauses: Set<number>;
}

interface Chain {
  readonly id: number;
  readonly account: string;
  readonly input: string;
  readonly handlers: readonly HandlerCells[];
  readonly failedBefore: readonly number[];
  readonly pausing: readonly string[];
  /** Patches of the handlers before, JSON texts joined by commas. */
  patches: string;
  at: number;
  starts: number;
  run: Run | null;
  ended: boolean;
}

/** Beginnings of one handler after which it is given up: others took its isolate down each time. */
const MAX_STARTS = 4;

/** A load that a handler needs may take this long, ms, whatever the handler's own time. */
const LOAD_MS = 5_000;

/** Time for reading what is left of a realm after a kill, ms. */
const AFTERMATH_MS = 50;

/**
 * Walks chains through the realms of their accounts. Every handler is entered by itself and its microtasks are drained
 * before the next one begins, so that time, blame and leftovers belong to exactly one handler.
 */
export class ChainWalker {
  readonly #vm: typeof ivm;
  readonly #memoryMiB: number;
  readonly #mark: Marks;
  readonly #say: (message: ToParent) => void;
  readonly #flush: () => void;
  readonly #sources = new Map<number, RealmSource>();
  readonly #isolates = new Map<string, AccountIsolate>();
  readonly #chains = new Map<number, Chain>();
  #runs = 0;
  /** Time spent inside plugin code in this process, ms. */
  #busyMs = 0;

  constructor(
    vm: typeof ivm,
    memoryMiB: number,
    mark: Marks,
    outbox: { readonly say: (message: ToParent) => void; readonly flush: () => void },
  ) {
    this.#vm = vm;
    this.#memoryMiB = memoryMiB;
    this.#mark = mark;
    this.#say = outbox.say;
    this.#flush = outbox.flush;
  }

  define(source: RealmSource): void {
    this.#sources.set(source.id, source);
  }

  drop(realmId: number): void {
    const source = this.#sources.get(realmId);
    if (source === undefined) return;
    this.#sources.delete(realmId);
    this.#isolates.get(source.account)?.drop(realmId);
  }

  load(loadId: number, account: string, realmId: number, budgetMs: number): void {
    const source = this.#sources.get(realmId);
    if (source === undefined) return;
    // An isolate of its own: what loads for the first time may well be what takes its isolate down.
    const home = new AccountIsolate(this.#vm, this.#memoryMiB);
    const since = monotonicMs();
    this.#mark(2, loadId, 0, since, since + budgetMs);
    try {
      const opened = home.open(source, budgetMs, 'pass');
      if (opened.kind === 'failed') {
        this.#say(['load-failed', loadId, opened.cause, opened.message, opened.line, opened.column]);
        return;
      }
      this.#say(['loaded', loadId, opened.realm.report, monotonicMs() - since]);
    } finally {
      home.dispose();
      this.#mark(0, 0, 0, 0, 0);
      this.#busyMs += monotonicMs() - since;
    }
    void account;
  }

  begin(
    id: number,
    account: string,
    input: string,
    patches: string,
    from: number,
    failedBefore: readonly number[],
    pausing: readonly string[],
    handlers: readonly HandlerCells[],
  ): void {
    const chain: Chain = {
      id,
      account,
      input,
      handlers,
      failedBefore,
      pausing,
      patches,
      at: from,
      starts: 0,
      run: null,
      ended: false,
    };
    this.#chains.set(id, chain);
    this.#walk(chain);
  }

  answer(
    chainId: number,
    handler: number,
    start: number,
    call: number,
    ok: boolean,
    text: string,
    code: string | null,
  ): void {
    const chain = this.#chains.get(chainId);
    const run = chain?.run;
    if (chain === undefined || run === undefined || run === null) return;
    if (chain.at !== handler || run.start !== start) return;
    this.#stopWaiting(run);
    run.openCalls--;
    if (run.pauses.delete(call)) run.openPauses--;
    const done = this.#enter(chain, run, [ENTER.answer, run.id, call, ok, text, code]);
    if (done) this.#walk(chain);
    else this.#mark(0, 0, 0, 0, 0);
  }

  stop(chainId: number): void {
    const chain = this.#chains.get(chainId);
    if (chain === undefined) return;
    if (chain.run !== null) this.#close(chain, chain.run);
    this.#end(chain);
  }

  /** Runs handlers until one has to wait or the chain is over. */
  #walk(chain: Chain): void {
    const since = monotonicMs();
    while (!chain.ended) {
      const handler = chain.handlers[chain.at];
      if (handler === undefined) {
        this.#end(chain);
        break;
      }
      if (!this.#begin(chain, handler)) break;
      // Lets other chains and answers through between handlers that take their time.
      if (!chain.ended && monotonicMs() - since > 10) {
        setImmediate(() => {
          if (!chain.ended && chain.run === null) this.#walk(chain);
          this.#flush();
        });
        break;
      }
    }
    this.#mark(0, 0, 0, 0, 0);
  }

  /** Begins the handler whose turn it is. True when it is done with and the next one may begin. */
  #begin(chain: Chain, handler: HandlerCells): boolean {
    const [realmId, name, timeoutMs, , args] = handler;
    if (chain.failedBefore.includes(chain.at)) {
      this.#say(['skipped', chain.id, chain.at]);
      this.#pass(chain, handler[7]);
      return true;
    }
    const home = this.#home(chain.account);
    const realm = this.#realm(chain, home, realmId);
    if (realm === null) {
      this.#pass(chain, handler[7]);
      return true;
    }
    const run: Run = {
      id: ++this.#runs,
      realm,
      home,
      start: chain.starts++,
      usedMs: 0,
      beganAt: monotonicMs(),
      waitingSince: 0,
      busyBefore: 0,
      openCalls: 0,
      openPauses: 0,
      timer: undefined,
      pauses: new Set(),
    };
    chain.run = run;
    home.active++;
    void timeoutMs;
    return this.#enter(chain, run, [ENTER.begin, run.id, name, chain.input, `[${chain.patches}]`, args]);
  }

  /** One entry into plugin code and the reading of what it left. True when the handler is done with. */
  #enter(chain: Chain, run: Run, args: (string | number | boolean | null)[]): boolean {
    const handler = chain.handlers[chain.at];
    if (handler === undefined) return true;
    const left = Math.max(1, Math.ceil(handler[2] - run.usedMs));
    const since = monotonicMs();
    this.#mark(1, chain.id, chain.at, since, since + left);
    let state = '';
    let killed = false;
    try {
      state = run.realm.enter.applySync(undefined, args, { timeout: left });
    } catch (error) {
      killed = isTimeout(error, monotonicMs() - since, left);
    }
    if (state === '' && !run.home.isolate.isDisposed) state = this.#collect(run, killed);
    const took = monotonicMs() - since;
    run.usedMs += took;
    this.#busyMs += took;
    if (run.home.isolate.isDisposed) return this.#fail(chain, run, 'crashed', 'memory', '');
    if (killed) {
      const notes = state === '' || state === 'P' || state.startsWith('C') ? this.#notes(run) : '';
      const rest = state.startsWith('C') ? this.#forwardCalls(chain, run, state) : state;
      const late = rest.startsWith('D');
      this.#lose(run.home, run);
      return late ? this.#finish(chain, run, rest) : this.#fail(chain, run, 'timed_out', 'sync', notes);
    }
    if (state.startsWith('C')) state = this.#forwardCalls(chain, run, state);
    if (state.startsWith('D')) return this.#finish(chain, run, state);
    if (state.startsWith('X')) return this.#fail(chain, run, 'crashed', state.slice(1), '');
    this.#wait(chain, run, handler);
    return chain.run === null;
  }

  #collect(run: Run, killed: boolean): string {
    try {
      return run.realm.enter.applySync(undefined, [ENTER.collect, run.id], killed ? { timeout: AFTERMATH_MS } : {});
    } catch {
      return '';
    }
  }

  #notes(run: Run): string {
    try {
      return run.realm.enter.applySync(undefined, [ENTER.close, run.id], { timeout: AFTERMATH_MS });
    } catch {
      return '';
    }
  }

  /** Sends the calls of a reading on; returns what stands behind them. */
  #forwardCalls(chain: Chain, run: Run, state: string): string {
    const end = state.indexOf('\n');
    const calls = JSON.parse(state.slice(1, end)) as [number, boolean, string, string | null, string | null][];
    for (const [number, answered, member, args, misfit] of calls) {
      if (answered) {
        run.openCalls++;
        if (chain.pausing.includes(member)) {
          run.pauses.add(number);
          run.openPauses++;
        }
      }
      this.#say(['call', chain.id, chain.at, run.start, number, answered, member, args, misfit]);
    }
    return state.slice(end + 1);
  }

  #wait(chain: Chain, run: Run, handler: HandlerCells): void {
    const [realmId, , timeoutMs, ceilingMs] = handler;
    // Nothing can come any more: no call is out, and nobody else ever enters this realm (MW-53).
    if (run.openCalls === 0 && this.#sources.get(realmId)?.fresh === true) {
      this.#expire(chain, run);
      return;
    }
    run.waitingSince = monotonicMs();
    run.busyBefore = this.#busyMs;
    const toCeiling = ceilingMs - (run.waitingSince - run.beganAt);
    const left = run.openPauses > 0 ? toCeiling : Math.min(toCeiling, timeoutMs - run.usedMs);
    run.timer = setTimeout(() => this.#ring(chain, run, handler), Math.max(1, left + 0.5));
  }

  /** Time that other handlers spent in this process does not count. */
  #stopWaiting(run: Run): void {
    clearTimeout(run.timer);
    run.timer = undefined;
    if (run.waitingSince === 0) return;
    const waited = monotonicMs() - run.waitingSince - (this.#busyMs - run.busyBefore);
    if (run.openPauses === 0) run.usedMs += Math.max(0, waited);
    run.waitingSince = 0;
  }

  #ring(chain: Chain, run: Run, handler: HandlerCells): void {
    if (chain.run !== run) return;
    this.#stopWaiting(run);
    const [, , timeoutMs, ceilingMs] = handler;
    if (run.usedMs < timeoutMs && monotonicMs() - run.beganAt < ceilingMs) {
      this.#wait(chain, run, handler);
    } else {
      this.#expire(chain, run);
      this.#walk(chain);
    }
    this.#flush();
  }

  #expire(chain: Chain, run: Run): void {
    const notes = this.#notes(run);
    this.#fail(chain, run, 'timed_out', 'async', notes);
  }

  #finish(chain: Chain, run: Run, state: string): boolean {
    const space = state.indexOf(' ');
    const raw = state.slice(space + 1);
    const handler = chain.handlers[chain.at];
    if (handler === undefined) return true;
    const [, , timeoutMs, , , advances, stopTags] = handler;
    this.#leave(chain, run);
    this.#say(['returned', chain.id, chain.at, raw, run.usedMs, run.usedMs > timeoutMs]);
    if (advances && raw.startsWith('~')) {
      const end = raw.indexOf('\n');
      const patch = end < 0 ? raw.slice(1) : raw.slice(1, end);
      chain.patches = chain.patches === '' ? patch : `${chain.patches},${patch}`;
    }
    if (raw !== '' && stopTags.includes(raw.charAt(0))) this.#end(chain);
    else this.#next(chain);
    return true;
  }

  #fail(chain: Chain, run: Run, cause: string, detail: string, notes: string): boolean {
    if (run.home.isolate.isDisposed) this.#lose(run.home, run);
    this.#leave(chain, run);
    this.#say(['failed', chain.id, chain.at, cause, detail, run.usedMs, notes]);
    this.#pass(chain, chain.handlers[chain.at]?.[7] ?? false);
    return true;
  }

  /** Goes on after a handler that failed or did not load. */
  #pass(chain: Chain, stopsOnFailure: boolean): void {
    if (stopsOnFailure) this.#end(chain);
    else this.#next(chain);
  }

  #next(chain: Chain): void {
    chain.at++;
    chain.starts = 0;
  }

  #end(chain: Chain): void {
    chain.ended = true;
    this.#chains.delete(chain.id);
    this.#say(['end', chain.id]);
  }

  #leave(chain: Chain, run: Run): void {
    clearTimeout(run.timer);
    chain.run = null;
    run.home.active--;
    if (run.home.active === 0 && this.#isolates.get(chain.account) !== run.home) run.home.dispose();
  }

  #close(chain: Chain, run: Run): void {
    if (!run.home.isolate.isDisposed) this.#notes(run);
    this.#leave(chain, run);
  }

  #home(account: string): AccountIsolate {
    const known = this.#isolates.get(account);
    if (known !== undefined && !known.isSpent) return known;
    if (known?.active === 0) known.dispose();
    const home = new AccountIsolate(this.#vm, this.#memoryMiB);
    this.#isolates.set(account, home);
    return home;
  }

  /** The realm of the handler whose turn it is; null when it could not be loaded, which has been said. */
  #realm(chain: Chain, home: AccountIsolate, realmId: number): LiveRealm | null {
    const source = this.#sources.get(realmId);
    if (source === undefined) {
      this.#say(['not-loaded', chain.id, chain.at, 'The plugin is not known here any more.']);
      return null;
    }
    const warm = source.fresh ? undefined : home.warm(realmId);
    if (warm !== undefined) return warm;
    const since = monotonicMs();
    this.#mark(2, chain.id, chain.at, since, since + LOAD_MS);
    home.active++;
    const opened = home.open(source, LOAD_MS, source.fresh ? 'pass' : 'keep');
    home.active--;
    this.#busyMs += monotonicMs() - since;
    if (opened.kind === 'opened') return opened.realm;
    if (opened.cause === 'timed_out' || home.isolate.isDisposed) this.#lose(home, null);
    this.#say(['not-loaded', chain.id, chain.at, opened.message]);
    return null;
  }

  /** Throws an isolate away that was killed or ran out of memory. Innocent handlers in it begin again in a new one. */
  #lose(home: AccountIsolate, guilty: Run | null): void {
    for (const [account, isolate] of this.#isolates) if (isolate === home) this.#isolates.delete(account);
    home.dispose();
    for (const chain of this.#chains.values()) {
      const run = chain.run;
      if (run === null || run === guilty || run.home !== home) continue;
      clearTimeout(run.timer);
      chain.run = null;
      home.active--;
      if (chain.starts >= MAX_STARTS) {
        this.#say(['failed', chain.id, chain.at, 'crashed', 'killed', run.usedMs, '']);
        this.#pass(chain, chain.handlers[chain.at]?.[7] ?? false);
      } else {
        this.#say(['restarted', chain.id, chain.at, chain.starts]);
      }
      setImmediate(() => {
        if (!chain.ended && chain.run === null) this.#walk(chain);
        this.#flush();
      });
    }
  }
}
