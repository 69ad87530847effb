import type ivm from 'isolated-vm';
import { monotonicMs } from '../marker.js';
import type { MarkerWriter } from '../marker.js';
import { patchOf, withPatch } from '../patches.js';
import { FLAG, HANDLER_CELLS } from '../wire.js';
import type { HandlerCells, OutcomeCells, ToParent } from '../wire.js';
import { AccountIsolate, isTimeout } from './account-isolate.js';
import type { LiveRealm, Opened, RealmSource } from './account-isolate.js';
import { ENTER } from './bootstrap.js';
import { DRIVE } from './driver.js';

interface Handler {
  readonly realm: number;
  readonly name: string;
  readonly timeoutMs: number;
  readonly ceilingMs: number;
  readonly flags: number;
  readonly stopTags: string;
}

interface Plan {
  readonly id: number;
  readonly account: string;
  readonly pausing: readonly string[];
  readonly handlers: readonly Handler[];
  /** What the driver needs of it: name, flags and stop tags of each handler. */
  readonly forDriver: readonly (string | number)[];
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
}

/** A run that waits for an answer, and when its time is up. */
interface Wait {
  readonly chain: Chain;
  readonly handler: Handler;
  readonly run: Run;
  readonly until: number;
}

interface Chain {
  readonly id: number;
  readonly plan: Plan;
  readonly account: string;
  readonly input: string;
  readonly args: string | readonly string[];
  readonly handlers: readonly Handler[];
  readonly failedBefore: readonly number[];
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
  readonly #plans = new Map<number, Plan>();
  /** Realms whose handlers are entered alone. */
  readonly #slow = new Set<number>();
  /** The same for good: they took a child down. */
  readonly #fatal = new Set<number>();
  readonly #waits = new Map<Run, Wait>();
  /** One timer for all waits, set for the first that can end. */
  #alarm: NodeJS.Timeout | undefined;
  #alarmAt = Infinity;
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

  define(source: RealmSource, isAlone: boolean): void {
    this.#sources.set(source.id, source);
    if (isAlone) this.#fatal.add(source.id);
  }

  plan(id: number, account: string, pausing: readonly string[], cells: readonly (string | number)[]): void {
    const handlers = handlersOf(cells);
    const forDriver = handlers.flatMap(({ name, flags, stopTags }) => [name, flags, stopTags]);
    this.#plans.set(id, { id, account, pausing, handlers, forDriver });
  }

  dropPlan(id: number): void {
    const plan = this.#plans.get(id);
    if (plan === undefined) return;
    this.#plans.delete(id);
    this.#isolates.get(plan.account)?.forgetPlan(id);
  }

  drop(realmId: number): void {
    const source = this.#sources.get(realmId);
    if (source === undefined) return;
    this.#sources.delete(realmId);
    this.#slow.delete(realmId);
    this.#fatal.delete(realmId);
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

  /** Starts a chain, or goes on with one from `from`. */
  begin(
    id: number,
    planId: number,
    input: string,
    args: string | readonly string[],
    patches = '',
    from = 0,
    failedBefore: readonly number[] = [],
    isCareful = false,
  ): void {
    const plan = this.#plans.get(planId);
    if (plan === undefined) return;
    const { account, handlers } = plan;
    const chain: Chain = {
      id,
      plan,
      account,
      input,
      args,
      handlers,
      failedBefore,
      patches,
      at: from,
      starts: 0,
      run: null,
      isCareful,
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
    if (chain.failedBefore.length > 0 && chain.failedBefore.includes(chain.at)) {
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
    let at = chain.at;
    for (; at < chain.handlers.length; at++) {
      const realm = chain.handlers[at]?.realm ?? 0;
      if (this.#slow.has(realm) || this.#fatal.has(realm) || home.free(realm) === undefined) break;
      if (chain.failedBefore.length > 0 && chain.failedBefore.includes(at)) break;
    }
    return at - chain.at;
  }

  #together(chain: Chain, home: AccountIsolate, count: number): void {
    const from = chain.at;
    const first = this.#runs + 1;
    this.#runs += count;
    home.learn(chain.plan.id, chain.plan.forDriver);
    const given: (string | number)[] = [DRIVE.walk, first, chain.input, chain.patches, chain.plan.id, from];
    let budget = TOGETHER_MS;
    for (let at = from; at < from + count; at++) {
      const handler = chain.handlers[at];
      given.push(home.free(handler?.realm ?? 0)?.id ?? 0);
      if (handler !== undefined && handler.timeoutMs < budget) budget = Math.ceil(handler.timeoutMs);
    }
    if (typeof chain.args === 'string') given.push(chain.args);
    else given.push(...chain.args.slice(from, from + count));
    home.ticks = [];
    home.said = '';
    const since = monotonicMs();
    this.#marker.enter(3, chain.id, from, since, since + budget + GRACE_TOGETHER_MS);
    let killed = false;
    try {
      home.drive.applySync(undefined, given, { timeout: budget });
    } catch (error) {
      killed = isTimeout(error, monotonicMs() - since, budget);
    }
    const now = monotonicMs();
    this.#busyMs += now - since;
    const said = killed || home.isolate.isDisposed ? '' : home.said || this.#readDriver(home);
    if (said === '') {
      this.#distrust(chain, home, from, count);
      return;
    }
    this.#readWalk(chain, home, said, first, since, now);
  }

  /** It was one of those that the walk had not come past when the clock was last read; they show it one by one. */
  #distrust(chain: Chain, home: AccountIsolate, from: number, count: number): void {
    chain.isCareful = true;
    for (let at = from + (home.ticks.at(-2) ?? 0); at < from + count; at++) {
      const handler = chain.handlers[at];
      if (handler !== undefined) this.#slow.add(handler.realm);
    }
    this.#lose(home, null);
  }

  #readWalk(chain: Chain, home: AccountIsolate, said: string, first: number, since: number, now: number): void {
    const from = chain.at;
    const states: string[] = [];
    let at = 0;
    while (said.charCodeAt(at) !== OVER && said.charCodeAt(at) !== UNFINISHED) {
      const colon = said.indexOf(':', at);
      const end = colon + 1 + Number(said.slice(at, colon));
      states.push(said.slice(colon + 1, end));
      at = end;
    }
    const isOver = said.charCodeAt(at) === OVER;
    const times = isOver
      ? timesOf(home.ticks, states.length, since, now)
      : timesOf(home.ticks, states.length + 1, since, now);
    for (const [done, state] of states.entries()) {
      const handler = chain.handlers[chain.at];
      if (handler === undefined) return;
      this.#conclude(chain, handler, this.#forward(chain, null, state), times[done] ?? 0);
    }
    if (isOver) return;
    const handler = chain.handlers[chain.at];
    const realm = handler === undefined ? undefined : home.free(handler.realm);
    if (handler === undefined || realm === undefined) return;
    home.take(realm);
    const usedMs = times[states.length] ?? 0;
    const run = this.#open(chain, home, realm, first + chain.at - from, now - usedMs);
    run.usedMs = usedMs;
    this.#read(chain, handler, run, said.slice(at + 1));
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
    const { name } = handler;
    const args = typeof chain.args === 'string' ? chain.args : (chain.args[chain.at] ?? '');
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
      waitingSince: 0,
      busyBefore: 0,
      othersMs: 0,
      calls: new Set(),
      pauses: new Set(),
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

  /**
   * The entry was ended by force. A result that was there in time stands, and what went on behind it counts as the
   * handler's time (MW-114): nobody else made the account wait.
   */
  #cut(chain: Chain, handler: Handler, run: Run, state: string): void {
    const rest = this.#forward(chain, run, state);
    const notes = rest.startsWith('D') ? '' : this.#notes(run);
    this.#lose(run.home, run);
    if (!rest.startsWith('D')) {
      this.#fail(chain, handler, run, 'timed_out sync', notes);
      return;
    }
    this.#leave(chain, run);
    this.#conclude(chain, handler, rest, run.usedMs);
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
        if (chain.plan.pausing.includes(member)) run.pauses.add(number);
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
    const until = run.waitingSince + left;
    this.#waits.set(run, { chain, handler, run, until });
    if (until < this.#alarmAt) this.#setAlarm(until);
  }

  #setAlarm(at: number): void {
    clearTimeout(this.#alarm);
    this.#alarmAt = at;
    this.#alarm = setTimeout(() => this.#ring(), Math.max(1, at - monotonicMs() + 0.5));
  }

  /** Time that other handlers spent in this process does not count against this one. */
  #stopWaiting(run: Run): void {
    this.#waits.delete(run);
    if (run.waitingSince === 0) return;
    const others = this.#busyMs - run.busyBefore;
    run.othersMs += others;
    if (run.pauses.size === 0) run.usedMs += Math.max(0, monotonicMs() - run.waitingSince - others);
    run.waitingSince = 0;
  }

  #ring(): void {
    const now = monotonicMs();
    this.#alarm = undefined;
    this.#alarmAt = Infinity;
    for (const wait of [...this.#waits.values()]) if (wait.until <= now) this.#timeUp(wait);
    let next = Infinity;
    for (const { until } of this.#waits.values()) if (until < next) next = until;
    if (next < this.#alarmAt) this.#setAlarm(next);
    this.#flush();
  }

  #timeUp({ chain, handler, run }: Wait): void {
    if (chain.run !== run) return;
    this.#stopWaiting(run);
    if (run.usedMs < handler.timeoutMs && ageOf(run, monotonicMs()) < handler.ceilingMs) {
      this.#wait(chain, handler, run);
      return;
    }
    this.#expire(chain, handler, run);
    this.#walk(chain);
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
    this.#waits.delete(run);
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
      this.#waits.delete(run);
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

/**
 * Time of each handler of a walk. The clock was read when a millisecond had begun; handlers that were done in between
 * share the time evenly.
 */
const timesOf = (ticks: readonly number[], count: number, since: number, until: number): number[] => {
  const times: number[] = [];
  let done = 0;
  let at = since;
  for (let tick = 0; done < count; tick += 2) {
    const then = Math.min(ticks[tick] ?? count, count);
    const now = ticks[tick + 1] ?? until;
    for (const share = (now - at) / (then - done); done < then; done++) times.push(share);
    at = now;
  }
  return times;
};

const handlersOf = (cells: readonly (string | number)[]): Handler[] => {
  const handlers: Handler[] = [];
  for (let at = 0; at < cells.length; at += HANDLER_CELLS) {
    const [realm, name, timeoutMs, ceilingMs, flags, stopTags] = cells.slice(
      at,
      at + HANDLER_CELLS,
    ) as unknown as HandlerCells;
    handlers.push({ realm, name, timeoutMs, ceilingMs, flags, stopTags });
  }
  return handlers;
};
