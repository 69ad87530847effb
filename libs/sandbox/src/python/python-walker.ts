import { monotonicMs } from '../marker.js';
import type { MarkerWriter } from '../marker.js';
import { patchOf, withPatch } from '../patches.js';
import { FLAG, HANDLER_CELLS } from '../wire.js';
import type { HandlerCells, OutcomeCells, ToParent } from '../wire.js';

/** The interpreter's one door: texts in, text out. */
export type Entry = (op: string, ...given: readonly string[]) => unknown;

interface Handler {
  readonly realm: number;
  readonly name: string;
  readonly timeoutMs: number;
  readonly ceilingMs: number;
  readonly flags: number;
  readonly stopTags: string;
}

interface Plan {
  readonly pausing: readonly string[];
  readonly handlers: readonly Handler[];
}

interface Source {
  readonly fileName: string;
  readonly code: string;
  readonly guest: string;
  readonly setup: string;
}

/** The handler of a chain that has begun and waits. */
interface Run {
  readonly id: number;
  readonly chain: Chain;
  readonly handler: Handler;
  readonly beganAt: number;
  /** Time that its clock stood still, ms. */
  pausedMs: number;
  pausedSince: number;
  readonly pauses: Set<number>;
}

interface Chain {
  readonly id: number;
  readonly plan: Plan;
  readonly input: string;
  readonly args: string | readonly string[];
  readonly failedBefore: readonly number[];
  patches: string;
  at: number;
  run: Run | null;
  isOver: boolean;
  untold: (string | number)[];
}

/** What the interpreter says of what it did. */
interface Said {
  readonly done: readonly (readonly [run: number, raw: string])[];
  readonly calls: readonly (readonly [
    run: number,
    call: number,
    answered: boolean,
    member: string,
    args: string | null,
    misfit: string | null,
  ])[];
  /** ms until a timer is due; null: none is. */
  readonly next: number | null;
}

/** A load that a handler needs may take this long, whatever the handler's own time. */
const LOAD_MS = 5_000;
/** Over its time by so much inside the interpreter, the process is ended: nothing else stops a loop for sure. */
const GRACE_MS = 60;
/** A run that was cancelled may put its things in order for so long. */
const CANCEL_MS = 50;
/** Raw results that are longer are a crash (guest-kit.md). */
const MAX_RAW = 24 * 1024 * 1024;

/**
 * Walks chains through one Python interpreter. Runs of one plugin wait side by side; only one is inside at a time, and
 * the marker says which, so that a process that has to be ended is ended for the right one.
 */
export class PythonWalker {
  readonly #entry: Entry;
  readonly #marker: MarkerWriter;
  readonly #say: (message: ToParent) => void;
  readonly #flush: () => void;
  readonly #sources = new Map<number, Source>();
  readonly #plans = new Map<number, Plan>();
  readonly #chains = new Map<number, Chain>();
  readonly #runs = new Map<number, Run>();
  /** What the interpreter was loaded with, and what it said. */
  #loaded: { readonly source: Source; readonly said: string } | null = null;
  #lastRun = 0;
  #alarm: NodeJS.Timeout | undefined;
  /** When the interpreter wants to be woken; `Infinity`: not. */
  #nextAt = Infinity;

  constructor(
    entry: Entry,
    marker: MarkerWriter,
    outbox: { readonly say: (message: ToParent) => void; readonly flush: () => void },
  ) {
    this.#entry = entry;
    this.#marker = marker;
    this.#say = outbox.say;
    this.#flush = outbox.flush;
  }

  define(id: number, source: Source): void {
    this.#sources.set(id, source);
  }

  drop(id: number): void {
    this.#sources.delete(id);
  }

  plan(id: number, pausing: readonly string[], cells: readonly (string | number)[]): void {
    this.#plans.set(id, { pausing, handlers: handlersOf(cells) });
  }

  dropPlan(id: number): void {
    this.#plans.delete(id);
  }

  load(loadId: number, realm: number, budgetMs: number): void {
    const source = this.#sources.get(realm);
    if (source === undefined) return;
    const since = monotonicMs();
    const said = this.#load(source, 2, loadId, 0, budgetMs);
    this.#marker.leave('lazily');
    if (said.startsWith('L')) {
      this.#say(['loaded', loadId, said.slice(1), monotonicMs() - since]);
      return;
    }
    const [message, line, column] = faultOf(said);
    this.#say(['load-failed', loadId, said.startsWith('S') ? 'syntax' : 'threw', message, line, column]);
  }

  begin(
    id: number,
    planId: number,
    input: string,
    args: string | readonly string[],
    patches = '',
    from = 0,
    failedBefore: readonly number[] = [],
  ): void {
    const plan = this.#plans.get(planId);
    if (plan === undefined) return;
    const chain: Chain = {
      id,
      plan,
      input,
      args,
      failedBefore,
      patches,
      at: from,
      run: null,
      isOver: false,
      untold: [],
    };
    this.#chains.set(id, chain);
    this.#walk(chain);
    this.#rest();
  }

  answer(chainId: number, index: number, call: number, ok: boolean, text: string, code: string | null): void {
    const chain = this.#chains.get(chainId);
    const run = chain?.run;
    if (chain === undefined || run === undefined || run === null || chain.at !== index) return;
    if (run.pauses.delete(call) && run.pauses.size === 0) run.pausedMs += monotonicMs() - run.pausedSince;
    this.#enter(run, 'answer', String(run.id), String(call), ok ? '1' : '0', text, code ?? '');
    this.#rest();
  }

  stop(chainId: number): void {
    const chain = this.#chains.get(chainId);
    if (chain === undefined) return;
    const { run } = chain;
    this.#end(chain);
    if (run !== null) this.#cancel(run);
    this.#tell(chain);
    this.#rest();
  }

  #walk(chain: Chain): void {
    while (!chain.isOver && chain.run === null) {
      const handler = chain.plan.handlers[chain.at];
      if (handler === undefined) this.#end(chain);
      else this.#step(chain, handler);
    }
    this.#tell(chain);
  }

  #step(chain: Chain, handler: Handler): void {
    if (chain.failedBefore.includes(chain.at)) {
      this.#note(chain, '-', '', 0, '');
      this.#pass(chain, handler);
      return;
    }
    const source = this.#sources.get(handler.realm);
    const said =
      source === undefined
        ? 'T["The plugin is not known here any more.",null]'
        : this.#load(source, 2, chain.id, chain.at, LOAD_MS);
    if (!said.startsWith('L')) {
      this.#note(chain, '?', faultOf(said)[0], 0, '');
      this.#pass(chain, handler);
      return;
    }
    const now = monotonicMs();
    const run: Run = {
      id: ++this.#lastRun,
      chain,
      handler,
      beganAt: now,
      pausedMs: 0,
      pausedSince: 0,
      pauses: new Set(),
    };
    chain.run = run;
    this.#runs.set(run.id, run);
    const args = typeof chain.args === 'string' ? chain.args : (chain.args[chain.at] ?? '{}');
    this.#enter(run, 'run', String(run.id), handler.name, chain.input, chain.patches, args);
  }

  /** Loads the plugin, once; what it said then is what it says. */
  #load(source: Source, place: 2, id: number, index: number, budgetMs: number): string {
    const loaded = this.#loaded;
    if (loaded !== null) {
      if (isSame(loaded.source, source)) return loaded.said;
      return 'T["Another plugin is loaded here.",null]';
    }
    const since = monotonicMs();
    this.#marker.enter(place, id, index, since, since + budgetMs + GRACE_MS);
    const said = String(this.#entry('load', source.guest, source.code, source.fileName, source.setup));
    this.#loaded = { source, said };
    return said;
  }

  /** Goes into the interpreter for a run, and does what it says when it comes out. */
  #enter(run: Run, op: string, ...given: readonly string[]): void {
    const now = monotonicMs();
    const left = Math.max(0, run.handler.timeoutMs - usedBy(run, now));
    this.#marker.enter(1, run.chain.id, run.chain.at, now, now + left + GRACE_MS);
    const said = String(this.#entry(op, ...given));
    this.#marker.leave('lazily');
    this.#hear(said);
  }

  #hear(text: string): void {
    if (text.startsWith('D')) {
      const end = text.indexOf(' ');
      this.#done(Number(text.slice(1, end)), text.slice(end + 1));
      return;
    }
    const said = JSON.parse(text.slice(1)) as Said;
    this.#nextAt = said.next === null ? Infinity : monotonicMs() + said.next;
    for (const [id, call, answered, member, args, misfit] of said.calls) {
      const run = this.#runs.get(id);
      if (run === undefined) continue;
      if (answered && run.chain.plan.pausing.includes(member)) {
        if (run.pauses.size === 0) run.pausedSince = monotonicMs();
        run.pauses.add(call);
      }
      this.#say(['call', run.chain.id, run.chain.at, 0, call, answered, member, args, misfit]);
    }
    for (const [id, raw] of said.done) this.#done(id, raw);
  }

  #done(id: number, raw: string): void {
    const run = this.#runs.get(id);
    if (run === undefined) return;
    const { chain, handler } = run;
    const usedMs = usedBy(run, monotonicMs());
    this.#leave(run);
    if (raw.length > MAX_RAW) {
      this.#note(chain, '!', '', usedMs, 'crashed memory');
      this.#pass(chain, handler);
    } else {
      this.#note(chain, '=', raw, usedMs, usedMs > handler.timeoutMs ? 'late' : '');
      const patch = (handler.flags & FLAG.advances) === 0 ? null : patchOf(raw);
      if (patch !== null) chain.patches = withPatch(chain.patches, patch);
      if (raw !== '' && handler.stopTags.includes(raw.charAt(0))) this.#end(chain);
      else chain.at++;
    }
    this.#walk(chain);
  }

  /** Its time is up while it waits. */
  #expire(run: Run): void {
    const { chain, handler } = run;
    this.#note(chain, '!', '', usedBy(run, monotonicMs()), 'timed_out async');
    this.#pass(chain, handler);
    // Told before it is cancelled: should it not let go of the interpreter, the chain is past it already.
    this.#tell(chain);
    this.#flush();
    this.#cancel(run);
    this.#walk(chain);
  }

  #cancel(run: Run): void {
    this.#leave(run);
    const now = monotonicMs();
    // What it does when it is told so is its own doing, but not the chain's any more.
    this.#marker.enter(2, 0, 0, now, now + CANCEL_MS + GRACE_MS);
    const said = String(this.#entry('cancel', String(run.id)));
    this.#marker.leave('at once');
    this.#hear(said);
  }

  #leave(run: Run): void {
    this.#runs.delete(run.id);
    run.chain.run = null;
  }

  /** Sets the clock for whoever is due first: the interpreter's own timers, and runs whose time is up. */
  #rest(): void {
    clearTimeout(this.#alarm);
    this.#alarm = undefined;
    if (this.#runs.size === 0) return;
    const now = monotonicMs();
    let at = this.#nextAt;
    for (const run of this.#runs.values()) {
      const until = run.pauses.size > 0 ? run.beganAt + run.handler.ceilingMs : now + leftOf(run, now);
      if (until < at) at = until;
    }
    if (at === Infinity) return;
    this.#alarm = setTimeout(() => this.#ring(), Math.max(0, Math.min(at - now + 0.5, 2 ** 31 - 1)));
  }

  #ring(): void {
    const now = monotonicMs();
    for (const run of [...this.#runs.values()]) {
      const isOver = run.pauses.size > 0 ? now - run.beganAt >= run.handler.ceilingMs : leftOf(run, now) <= 0;
      if (isOver && this.#runs.has(run.id)) this.#expire(run);
    }
    if (this.#nextAt <= now) {
      this.#nextAt = Infinity;
      // Whose timer it is, nobody knows from here: the oldest run that waits answers for it.
      const [first] = this.#runs.values();
      if (first !== undefined) this.#enter(first, 'tick');
    }
    this.#rest();
    this.#flush();
  }

  #note(chain: Chain, kind: OutcomeCells[1], text: string, usedMs: number, detail: string): void {
    chain.untold.push(chain.at, kind, text, usedMs, detail);
  }

  #pass(chain: Chain, handler: Handler): void {
    if ((handler.flags & FLAG.stopsOnFailure) !== 0) this.#end(chain);
    else chain.at++;
  }

  #tell(chain: Chain): void {
    if (chain.untold.length === 0 && !chain.isOver) return;
    this.#say(['outcomes', chain.id, chain.isOver, ...chain.untold]);
    chain.untold = [];
  }

  #end(chain: Chain): void {
    chain.isOver = true;
    this.#chains.delete(chain.id);
  }
}

const usedBy = (run: Run, now: number): number =>
  Math.max(0, now - run.beganAt - run.pausedMs - (run.pauses.size > 0 ? now - run.pausedSince : 0));

const leftOf = (run: Run, now: number): number => run.handler.timeoutMs - usedBy(run, now);

const isSame = (a: Source, b: Source): boolean =>
  a === b || (a.code === b.code && a.setup === b.setup && a.guest === b.guest && a.fileName === b.fileName);

/** What a load said that failed: message, line, column. */
const faultOf = (said: string): [message: string, line: number | null, column: number | null] => {
  const [message, line, column] = JSON.parse(said.slice(1)) as readonly unknown[];
  const place = (value: unknown): number | null =>
    typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
  return [String(message).slice(0, 1000), place(line), place(column)];
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
