import type ivm from 'isolated-vm';
import { monotonicMs } from '../marker.js';
import type { MarkerWriter } from '../marker.js';
import { patchOf, withPatch } from '../patches.js';
import { FLAG, HANDLER_CELLS } from '../wire.js';
import type { OutcomeCells, ToParent } from '../wire.js';
import { AccountIsolate, isTimeout } from './account-isolate.js';
import type { LiveRealm, Opened, RealmSource } from './account-isolate.js';
import { ENTER } from './bootstrap.js';
import { DRIVE } from './driver.js';

interface Handler {
  readonly realm: number;
  readonly name: string;
  readonly timeoutMs: number;
  readonly ceilingMs: number;
  readonly args: string;
  readonly flags: number;
  readonly stopTags: string;
}

/** The handler of a chain that has begun and is not done. */
interface Run {
  readonly id: number;
  readonly realm: LiveRealm;
  readonly home: AccountIsolate;
  /** How often this handler had begun before, its isolate having been lost through others. */
  readonly start: number;
  /** Time on its own clock, ms. */
  usedMs: number;
  /** When it began, on the monotonic clock and on the wall's. */
  readonly beganAt: number;
  readonly beganDate: number;
  /** When it began to wait; 0 while it does not. */
  waitingSince: number;
  /** Time that this process had spent in plugin code when the wait began. */
  busyBefore: number;
  /** Time that others spent in this process while it waited. */
  othersMs: number;
  /** Calls that an answer is awaited for, by number. */
  readonly calls: Set<number>;
  /** Open calls during which the clock stands still. */
  readonly pauses: Set<number>;
  timer: NodeJS.Timeout | undefined;
}

interface Chain {
  readonly id: number;
  readonly account: string;
  readonly input: string;
  readonly handlers: readonly Handler[];
  readonly failedBefore: readonly number[];
  readonly pausing: readonly string[];
  /** Patches of the handlers before, JSON texts joined by commas. */
  patches: string;
  at: number;
  /** How often the handler at `at` began. */
  starts: number;
  run: Run | null;
  /** Something went wrong when several were entered together: from now on one by one. */
  isCareful: boolean;
  isOver: boolean;
  /** Outcomes that the API process has not been told. */
  untold: (string | number)[];
}

/** Isolates kept in a process that accounts share. */
const MAX_ISOLATES = 16;
/** Beginnings of one handler after which it is given up: others took its isolate down each time. */
const MAX_STARTS = 100;
/** A load that a handler needs may take this long, whatever the handler's own time. */
const LOAD_MS = 5_000;
/** Time for reading what is left of a realm after a kill. */
const AFTERMATH_MS = 50;
/** After its time is up, an entry may go on for so long before the supervisor kills the process. */
const GRACE_MS = 400;
const GRACE_TOGETHER_MS = 200;
/** Handlers that are entered together have this much time in all; who needs more is entered alone. */
const TOGETHER_MS = 250;
/** A handler that keeps the process for longer is entered alone the next time, until it is quick again. */
const SLOW_MS = 40;
const QUICK_MS = 10;
/** After so long, other chains and answers get their turn between two handlers. */
const YIELD_MS = 10;

/**
 * Walks chains through the realms of their accounts.
 *
 * Handlers that have shown themselves quick are entered together, in one native call. Everything else is entered alone:
 * its microtasks are drained before the next handler begins, so time, blame and leftovers belong to exactly one
 * handler. When handlers that were entered together run out of time or memory, nothing of it counts: nothing has been
 * read yet, so nothing has left the realms, and they are entered again one by one.
 */
export class ChainWalker {
  readonly #vm: typeof ivm;
  readonly #memoryMiB: number;
  readonly #marker: MarkerWriter;
  readonly #say: (message: ToParent) => void;
  readonly #flush: () => void;
  readonly #sources = new Map<number, RealmSource>();
  readonly #isolates = new Map<string, AccountIsolate>();
  readonly #chains = new Map<number, Chain>();
  /** Realms whose handlers are entered alone. */
  readonly #slow = new Set<number>();
  #runs = 0;
  /** Time spent inside plugin code in this process, ms. */
  #busyMs = 0;

  constructor(
    vm: typeof ivm,
    memoryMiB: number,
    marker: MarkerWriter,
    outbox: { readonly say: (message: ToParent) => void; readonly flush: () => void },
  ) {
    this.#vm = vm;
    this.#memoryMiB = memoryMiB;
    this.#marker = marker;
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
    this.#slow.delete(realmId);
    this.#isolates.get(source.account)?.drop(realmId);
  }

  /** Loads in an isolate of its own: what loads for the first time may well be what takes its isolate down. */
  load(loadId: number, realmId: number, budgetMs: number): void {
    const source = this.#sources.get(realmId);
    if (source === undefined) return;
    const home = new AccountIsolate(this.#vm, this.#memoryMiB);
    const since = monotonicMs();
    this.#marker.enter(2, loadId, 0, since, since + budgetMs + GRACE_MS);
    try {
      const opened = home.open(source, budgetMs);
      if (opened.kind === 'failed') {
        this.#say(['load-failed', loadId, opened.cause, opened.message, opened.line, opened.column]);
      } else {
        this.#say(['loaded', loadId, opened.realm.report, monotonicMs() - since]);
      }
    } catch {
      const isLate = monotonicMs() - since >= budgetMs;
      const message = isLate ? 'Loading took too long.' : 'Nothing could be read after loading.';
      this.#say(['load-failed', loadId, isLate ? 'timed_out' : 'crashed', message, null, null]);
    } finally {
      home.dispose();
      this.#busyMs += monotonicMs() - since;
      this.#marker.leave('lazily');
    }
  }

  begin(
    id: number,
    account: string,
    input: string,
    patches: string,
    from: number,
    failedBefore: readonly number[],
    pausing: readonly string[],
    handlers: readonly (string | number)[],
  ): void {
    const chain: Chain = {
      id,
      account,
      input,
      handlers: handlersOf(handlers),
      failedBefore,
      pausing,
      patches,
      at: from,
      starts: 0,
      run: null,
      isCareful: false,
      isOver: false,
      untold: [],
    };
    this.#chains.set(id, chain);
    this.#walk(chain);
  }

  answer(
    chainId: number,
    index: number,
    start: number,
    call: number,
    ok: boolean,
    text: string,
    code: string | null,
  ): void {
    const chain = this.#chains.get(chainId);
    const run = chain?.run;
    const handler = chain?.handlers[index];
    if (chain === undefined || run === undefined || run === null || handler === undefined) return;
    if (chain.at !== index || run.start !== start) return;
    if (!run.calls.delete(call)) return;
    this.#stopWaiting(run);
    run.pauses.delete(call);
    this.#enter(chain, handler, run, [ENTER.answer, run.id, call, ok, text, code]);
    this.#walk(chain);
  }

  stop(chainId: number): void {
    const chain = this.#chains.get(chainId);
    if (chain === undefined) return;
    if (chain.run !== null) {
      this.#notes(chain.run);
      this.#leave(chain, chain.run);
    }
    this.#end(chain);
    this.#tell(chain);
  }

  /** Runs handlers until one has to wait or the chain is over. */
  #walk(chain: Chain): void {
    const since = monotonicMs();
    while (!chain.isOver && chain.run === null) {
      const handler = chain.handlers[chain.at];
      if (handler === undefined) {
        this.#end(chain);
        break;
      }
      this.#step(chain, handler);
      if (monotonicMs() - since > YIELD_MS) break;
    }
    this.#marker.leave(chain.run === null ? 'lazily' : 'at once');
    this.#tell(chain);
    if (!chain.isOver && chain.run === null) this.#walkLater(chain);
  }

  #walkLater(chain: Chain): void {
    setImmediate(() => {
      if (!chain.isOver && chain.run === null) this.#walk(chain);
      this.#flush();
    });
  }

  #step(chain: Chain, handler: Handler): void {
    if (chain.failedBefore.includes(chain.at)) {
      this.#note(chain, '-', '', 0, '');
      this.#pass(chain, handler);
      return;
    }
    const home = this.#home(chain.account);
    const count = this.#quick(chain, home);
    if (count > 1) this.#together(chain, home, count);
    else this.#alone(chain, home, handler);
  }

  /** How many handlers from here on may be entered together: quick ones that are loaded, nobody else being at work. */
  #quick(chain: Chain, home: AccountIsolate): number {
    if (chain.isCareful || home.active > 0) return 0;
    let count = 0;
    for (let at = chain.at; at < chain.handlers.length; at++) {
      const handler = chain.handlers[at];
      if (handler === undefined || (handler.flags & FLAG.alone) !== 0 || this.#slow.has(handler.realm)) break;
      if (home.free(handler.realm) === undefined || chain.failedBefore.includes(at)) break;
      count++;
    }
    return count;
  }

  #together(chain: Chain, home: AccountIsolate, count: number): void {
    const first = this.#runs + 1;
    this.#runs += count;
    const args: (string | number)[] = [DRIVE.walk, first, chain.input, chain.patches];
    let budget = TOGETHER_MS;
    for (let at = chain.at; at < chain.at + count; at++) {
      const handler = chain.handlers[at];
      if (handler === undefined) break;
      const realm = home.free(handler.realm)?.id ?? 0;
      args.push(realm, handler.name, handler.args, handler.flags, handler.stopTags);
      if (handler.timeoutMs < budget) budget = handler.timeoutMs;
    }
    const ticks: number[] = [];
    home.ticks = ticks;
    const from = chain.at;
    const since = monotonicMs();
    this.#marker.enter(3, chain.id, from, since, since + budget + GRACE_TOGETHER_MS);
    let killed = false;
    try {
      home.drive.applySync(undefined, args, { timeout: Math.ceil(budget) });
    } catch (error) {
      killed = isTimeout(error, monotonicMs() - since, Math.ceil(budget));
    }
    const said = killed || home.isolate.isDisposed ? '' : this.#readDriver(home);
    const now = monotonicMs();
    this.#busyMs += now - since;
    if (said === '') {
      chain.isCareful = true;
      this.#slow.add(chain.handlers[from + Math.max(0, ticks.length - 1)]?.realm ?? 0);
      this.#lose(home, null);
      return;
    }
    let at = 0;
    for (let done = 0; said.charCodeAt(at) !== OVER && said.charCodeAt(at) !== UNFINISHED; done++) {
      const colon = said.indexOf(':', at);
      const end = colon + 1 + Number(said.slice(at, colon));
      const handler = chain.handlers[chain.at];
      if (handler === undefined) return;
      const usedMs = (ticks[done + 1] ?? now) - (ticks[done] ?? since);
      this.#conclude(chain, handler, this.#forward(chain, null, said.slice(colon + 1, end)), usedMs);
      at = end;
    }
    if (said.charCodeAt(at) === OVER) return;
    const handler = chain.handlers[chain.at];
    const realm = handler === undefined ? undefined : home.free(handler.realm);
    if (handler === undefined || realm === undefined) return;
    const done = chain.at - from;
    home.take(realm);
    const run = this.#open(chain, home, realm, first + done, ticks[done] ?? since);
    run.usedMs = now - run.beganAt;
    this.#read(chain, handler, run, this.#collect(run, {}));
  }

  #readDriver(home: AccountIsolate): string {
    try {
      return home.drive.applySync(undefined, [DRIVE.read]);
    } catch {
      return '';
    }
  }

  #alone(chain: Chain, home: AccountIsolate, handler: Handler): void {
    const realm = this.#realm(chain, home, handler);
    if (realm === null) {
      this.#pass(chain, handler);
      return;
    }
    const run = this.#open(chain, home, realm, ++this.#runs, monotonicMs());
    const { name, args } = handler;
    this.#enter(chain, handler, run, [ENTER.begin, run.id, name, chain.input, `[${chain.patches}]`, args]);
  }

  #open(chain: Chain, home: AccountIsolate, realm: LiveRealm, id: number, beganAt: number): Run {
    const run: Run = {
      id,
      realm,
      home,
      start: chain.starts++,
      usedMs: 0,
      beganAt,
      beganDate: Date.now() - (monotonicMs() - beganAt),
      waitingSince: 0,
      busyBefore: 0,
      othersMs: 0,
      calls: new Set(),
      pauses: new Set(),
      timer: undefined,
    };
    chain.run = run;
    home.active++;
    return run;
  }

  /** One entry into plugin code, and the reading of what it left. */
  #enter(chain: Chain, handler: Handler, run: Run, args: (string | number | boolean | null)[]): void {
    const left = Math.max(1, Math.ceil(handler.timeoutMs - run.usedMs));
    const since = monotonicMs();
    this.#marker.enter(1, chain.id, chain.at, since, since + left + GRACE_MS);
    let killed = false;
    try {
      run.realm.enter.applySync(undefined, args, { timeout: left });
    } catch (error) {
      killed = isTimeout(error, monotonicMs() - since, left);
    }
    const state = run.home.isolate.isDisposed ? '' : this.#collect(run, killed ? { timeout: AFTERMATH_MS } : {});
    const took = monotonicMs() - since;
    run.usedMs += took;
    this.#busyMs += took;
    if (took > SLOW_MS) this.#slow.add(handler.realm);
    else if (took < QUICK_MS) this.#slow.delete(handler.realm);
    if (run.home.isolate.isDisposed) {
      this.#lose(run.home, run);
      this.#fail(chain, handler, run, 'crashed memory', '');
    } else if (killed) {
      this.#cut(chain, handler, run, state);
    } else {
      this.#read(chain, handler, run, state);
    }
  }

  /** The entry was ended by force. A result that was there in time stands; what went on behind it does not matter. */
  #cut(chain: Chain, handler: Handler, run: Run, state: string): void {
    const rest = this.#forward(chain, run, state);
    const notes = rest.startsWith('D') ? '' : this.#notes(run);
    this.#lose(run.home, run);
    if (!rest.startsWith('D')) {
      this.#fail(chain, handler, run, 'timed_out sync', notes);
      return;
    }
    const doneMs = Number(rest.slice(1, rest.indexOf(' '))) - run.beganDate;
    this.#leave(chain, run);
    this.#conclude(chain, handler, rest, Math.min(run.usedMs, Math.max(0, doneMs)));
  }

  #read(chain: Chain, handler: Handler, run: Run, state: string): void {
    const rest = this.#forward(chain, run, state);
    if (rest.startsWith('D') || rest.startsWith('X')) {
      this.#leave(chain, run);
      this.#conclude(chain, handler, rest, run.usedMs);
      return;
    }
    this.#wait(chain, handler, run);
  }

  #collect(run: Run, options: { timeout?: number }): string {
    try {
      return run.realm.enter.applySync(undefined, [ENTER.collect, run.id], options);
    } catch {
      return '';
    }
  }

  /** Closes a run and gives back its notes. */
  #notes(run: Run): string {
    try {
      return run.realm.enter.applySync(undefined, [ENTER.close, run.id], { timeout: AFTERMATH_MS });
    } catch {
      return '';
    }
  }

  /** Sends the calls of a reading on; returns what stands behind them. */
  #forward(chain: Chain, run: Run | null, state: string): string {
    if (!state.startsWith('C')) return state;
    const end = state.indexOf('\n');
    const calls = JSON.parse(state.slice(1, end)) as [number, boolean, string, string | null, string | null][];
    this.#tell(chain);
    for (const [number, answered, member, args, misfit] of calls) {
      if (answered && run !== null) {
        run.calls.add(number);
        if (chain.pausing.includes(member)) run.pauses.add(number);
      }
      this.#say(['call', chain.id, chain.at, run?.start ?? chain.starts, number, answered, member, args, misfit]);
    }
    return state.slice(end + 1);
  }

  #wait(chain: Chain, handler: Handler, run: Run): void {
    // Nothing can come any more: its microtasks are drained, no call is out, there are no timers, and nobody else enters
    // this realm while the run has it (MW-53).
    if (run.calls.size === 0) {
      this.#expire(chain, handler, run);
      return;
    }
    run.waitingSince = monotonicMs();
    run.busyBefore = this.#busyMs;
    const toCeiling = handler.ceilingMs - ageOf(run, run.waitingSince);
    const left = run.pauses.size > 0 ? toCeiling : Math.min(toCeiling, handler.timeoutMs - run.usedMs);
    run.timer = setTimeout(() => this.#ring(chain, handler, run), Math.max(1, left + 0.5));
  }

  /** Time that other handlers spent in this process does not count against this one. */
  #stopWaiting(run: Run): void {
    clearTimeout(run.timer);
    run.timer = undefined;
    if (run.waitingSince === 0) return;
    const others = this.#busyMs - run.busyBefore;
    run.othersMs += others;
    if (run.pauses.size === 0) run.usedMs += Math.max(0, monotonicMs() - run.waitingSince - others);
    run.waitingSince = 0;
  }

  #ring(chain: Chain, handler: Handler, run: Run): void {
    if (chain.run !== run) return;
    this.#stopWaiting(run);
    if (run.usedMs < handler.timeoutMs && ageOf(run, monotonicMs()) < handler.ceilingMs) {
      this.#wait(chain, handler, run);
      return;
    }
    this.#expire(chain, handler, run);
    this.#walk(chain);
    this.#flush();
  }

  #expire(chain: Chain, handler: Handler, run: Run): void {
    this.#fail(chain, handler, run, 'timed_out async', this.#notes(run));
  }

  /** A handler ended by itself: `D` time and raw result, or `X` and what its realm broke on. */
  #conclude(chain: Chain, handler: Handler, state: string, usedMs: number): void {
    if (!state.startsWith('D')) {
      this.#note(chain, '!', '', usedMs, `crashed ${state.slice(1)}`);
      this.#pass(chain, handler);
      return;
    }
    const raw = state.slice(state.indexOf(' ') + 1);
    this.#note(chain, '=', raw, usedMs, usedMs > handler.timeoutMs ? 'late' : '');
    const patch = (handler.flags & FLAG.advances) === 0 ? null : patchOf(raw);
    if (patch !== null) chain.patches = withPatch(chain.patches, patch);
    if (raw !== '' && handler.stopTags.includes(raw.charAt(0))) this.#end(chain);
    else this.#next(chain);
  }

  #fail(chain: Chain, handler: Handler, run: Run, detail: string, notes: string): void {
    this.#leave(chain, run);
    this.#note(chain, '!', notes, run.usedMs, detail);
    this.#pass(chain, handler);
  }

  #note(chain: Chain, kind: OutcomeCells[1], text: string, usedMs: number, detail: string): void {
    chain.untold.push(chain.at, kind, text, usedMs, detail);
  }

  #tell(chain: Chain): void {
    if (chain.untold.length === 0 && !chain.isOver) return;
    this.#say(['outcomes', chain.id, chain.isOver, ...chain.untold]);
    chain.untold = [];
  }

  /** Goes on after a handler that failed or did not load. */
  #pass(chain: Chain, handler: Handler): void {
    if ((handler.flags & FLAG.stopsOnFailure) !== 0) this.#end(chain);
    else this.#next(chain);
  }

  #next(chain: Chain): void {
    chain.at++;
    chain.starts = 0;
  }

  #end(chain: Chain): void {
    chain.isOver = true;
    this.#chains.delete(chain.id);
  }

  #leave(chain: Chain, run: Run): void {
    clearTimeout(run.timer);
    chain.run = null;
    run.home.active--;
    run.home.give(run.realm, this.#sources.get(run.realm.source.id) === run.realm.source);
    if (run.home.active === 0 && this.#isolates.get(chain.account) !== run.home) run.home.dispose();
  }

  #home(account: string): AccountIsolate {
    const known = this.#isolates.get(account);
    if (known !== undefined && !known.isSpent) {
      if (this.#isolates.size > 1) {
        // Last in the Map is the most recently used.
        this.#isolates.delete(account);
        this.#isolates.set(account, known);
      }
      return known;
    }
    if (known?.active === 0) known.dispose();
    const home = new AccountIsolate(this.#vm, this.#memoryMiB);
    this.#isolates.delete(account);
    this.#isolates.set(account, home);
    if (this.#isolates.size > MAX_ISOLATES) this.#disposeOldest();
    return home;
  }

  #disposeOldest(): void {
    for (const [account, home] of this.#isolates) {
      if (home.active > 0) continue;
      this.#isolates.delete(account);
      home.dispose();
      return;
    }
  }

  /** The realm of the handler whose turn it is; null when it could not be loaded, which has been noted. */
  #realm(chain: Chain, home: AccountIsolate, handler: Handler): LiveRealm | null {
    const source = this.#sources.get(handler.realm);
    if (source === undefined) {
      this.#note(chain, '?', 'The plugin is not known here any more.', 0, '');
      return null;
    }
    const warm = home.free(handler.realm);
    if (warm !== undefined) {
      home.take(warm);
      return warm;
    }
    const since = monotonicMs();
    this.#marker.enter(2, chain.id, chain.at, since, since + LOAD_MS + GRACE_MS);
    home.active++;
    const opened = openSafely(home, source, LOAD_MS);
    home.active--;
    this.#busyMs += monotonicMs() - since;
    if (opened.kind === 'opened') return opened.realm;
    if (opened.cause === 'timed_out' || opened.cause === 'crashed') this.#lose(home, null);
    this.#note(chain, '?', opened.message, 0, '');
    return null;
  }

  /** Throws an isolate away that was killed or ran out of memory. Innocent handlers in it begin again in a new one. */
  #lose(home: AccountIsolate, guilty: Run | null): void {
    for (const [account, isolate] of this.#isolates) if (isolate === home) this.#isolates.delete(account);
    home.dispose();
    for (const chain of this.#chains.values()) {
      const run = chain.run;
      const handler = chain.handlers[chain.at];
      if (run === null || handler === undefined || run === guilty || run.home !== home) continue;
      clearTimeout(run.timer);
      chain.run = null;
      home.active--;
      if (chain.starts >= MAX_STARTS) {
        this.#note(chain, '!', '', run.usedMs, 'crashed killed');
        this.#pass(chain, handler);
      } else {
        this.#say(['restarted', chain.id, chain.at, chain.starts]);
      }
      this.#walkLater(chain);
      if (chain.isOver) this.#tell(chain);
    }
  }
}

/** Time since it began, pauses included, the work of others not. */
const ageOf = (run: Run, now: number): number => now - run.beganAt - run.othersMs;

const OVER = '.'.charCodeAt(0);
const UNFINISHED = '!'.charCodeAt(0);

/** A context that cannot even be made is a crash of the isolate, not of this program. */
const openSafely = (home: AccountIsolate, source: RealmSource, budgetMs: number): Opened => {
  try {
    return home.open(source, budgetMs);
  } catch {
    return { kind: 'failed', cause: 'crashed', message: 'The plugin could not be loaded.', line: null, column: null };
  }
};

/** Undoes the abbreviation: 0 stands for the text of the handler before. */
const handlersOf = (cells: readonly (string | number)[]): Handler[] => {
  const handlers: Handler[] = [];
  let name = '';
  let args = '';
  let stopTags = '';
  for (let at = 0; at < cells.length; at += HANDLER_CELLS) {
    const given = cells[at + 1];
    const givenArgs = cells[at + 4];
    const givenTags = cells[at + 6];
    if (typeof given === 'string') name = given;
    if (typeof givenArgs === 'string') args = givenArgs;
    if (typeof givenTags === 'string') stopTags = givenTags;
    handlers.push({
      realm: cells[at] as number,
      name,
      timeoutMs: cells[at + 2] as number,
      ceilingMs: cells[at + 3] as number,
      args,
      flags: cells[at + 5] as number,
      stopTags,
    });
  }
  return handlers;
};
