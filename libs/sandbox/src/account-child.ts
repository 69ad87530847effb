import type { ChainState } from './chain-state.js';
import { crashedOutcome } from './chain-state.js';
import { MAX_OPEN_CALLS } from './child/bootstrap.js';
import type { Ending, SandboxChild } from './child-process.js';
import { monotonicMs } from './marker.js';
import type { Marker } from './marker.js';
import type { CallAnswer, HandlerOutcome, HandlerRun, LoadOutcome, Realm } from './sandbox.js';
import { FLAG, OUTCOME_CELLS } from './wire.js';
import type { HandlerCells, OutcomeCells, ToParent } from './wire.js';

/** Chains that are in a child at once; the others wait here, where a kill does not reach them. */
const WINDOW_CHAINS = 256;
const WINDOW_CHARACTERS = 32 * 1024 * 1024;
/** Realms that one child keeps warm, the least recently used one is dropped first. */
const MAX_REALMS = 128;
/** Of realms that took a child down so many are remembered. */
const MAX_FATAL = 1000;
/** A chain that saw more children than it has handlers is not to blame, but cannot go on for ever either. */
const SPARE_DISPATCHES = 20;

interface KnownRealm {
  readonly id: number;
  readonly key: string;
  readonly pluginId: string;
  /** Chains and loads that still need it. */
  uses: number;
  isDoomed: boolean;
}

interface PendingLoad {
  readonly realm: Realm;
  readonly budgetMs: number;
  readonly settle: (outcome: LoadOutcome) => void;
  dispatches: number;
}

/** Keys of realms that took a child down: their handlers are entered alone, so that nobody else pays for a second time. */
export class FatalRealms {
  readonly #keys = new Set<string>();

  has(key: string): boolean {
    return this.#keys.size > 0 && this.#keys.has(key);
  }

  add(key: string): void {
    if (this.#keys.size >= MAX_FATAL) this.#keys.clear();
    this.#keys.add(key);
  }
}

/** What is left over when a child ends. */
export interface Leftovers {
  readonly chains: readonly ChainState[];
  readonly loads: readonly PendingLoad[];
}

let lastId = 0;

/** The child that serves an account, and what is under way in it. */
export class AccountChild {
  readonly child: SandboxChild;
  lastUsed = monotonicMs();
  /** Takes nothing new and ends when it has nothing left. */
  isRetiring = false;
  readonly #onIdle: () => void;
  /** Realms that took a child down before. */
  readonly #fatal: FatalRealms;
  readonly #realms = new Map<string, KnownRealm>();
  readonly #chains = new Map<number, { readonly state: ChainState; readonly realms: readonly KnownRealm[] }>();
  readonly #loads = new Map<number, PendingLoad & { readonly known: KnownRealm }>();
  readonly #queue: ChainState[] = [];
  #characters = 0;

  constructor(child: SandboxChild, fatal: FatalRealms, onIdle: () => void, onLost: (left: Leftovers) => void) {
    this.child = child;
    this.#onIdle = onIdle;
    this.#fatal = fatal;
    child.attach({
      onMessage: (message) => this.#hear(message),
      onEnd: (ending) => onLost(this.#leftovers(ending)),
    });
  }

  get isIdle(): boolean {
    return this.#chains.size === 0 && this.#loads.size === 0 && this.#queue.length === 0;
  }

  run(state: ChainState): void {
    this.lastUsed = monotonicMs();
    if (this.#chains.size >= WINDOW_CHAINS || this.#characters > WINDOW_CHARACTERS) this.#queue.push(state);
    else this.#dispatch(state);
  }

  load(load: PendingLoad): void {
    this.lastUsed = monotonicMs();
    load.dispatches++;
    const id = ++lastId;
    const known = this.#define(load.realm);
    this.#loads.set(id, { ...load, known });
    this.child.say(['load', id, load.realm.account, known.id, load.budgetMs]);
    this.child.watch();
  }

  forget(account: string, pluginId: string): void {
    for (const [key, known] of this.#realms) {
      if (known.pluginId === pluginId && key.startsWith(`${account}\0`)) this.#doom(key, known);
    }
  }

  #dispatch(state: ChainState): void {
    if (state.isOver) return;
    state.dispatches++;
    state.start = 0;
    state.epoch++;
    if (state.dispatches > state.run.handlers.length + SPARE_DISPATCHES) {
      state.giveUp();
      return;
    }
    const id = ++lastId;
    const { run } = state;
    const realms = run.handlers.map((handler) => this.#define(handler.realm));
    this.#chains.set(id, { state, realms });
    this.#characters += run.input.length;
    state.answer = (handler, call, answer) => this.#answer(id, state, handler, call, answer);
    state.whenStopped(() => {
      this.child.say(['stop', id]);
      this.#forgetChain(id);
    });
    this.child.say([
      'run',
      id,
      run.account,
      run.input,
      state.patches,
      state.next,
      [...state.lost.keys()],
      run.pausingMembers,
      ...this.#handlerCells(state, realms),
    ]);
    this.child.watch();
  }

  #handlerCells(state: ChainState, realms: readonly KnownRealm[]): (string | number)[] {
    const cells: (string | number)[] = [];
    let before: HandlerRun | null = null;
    for (const [index, handler] of state.run.handlers.entries()) {
      const known = realms[index];
      let flags = handler.advances ? FLAG.advances : 0;
      let stopTags = '';
      for (const tag of handler.stopsOn) {
        if (tag === 'failed') flags |= FLAG.stopsOnFailure;
        else stopTags += tag;
      }
      if (state.isCareful || (known !== undefined && this.#fatal.has(known.key))) flags |= FLAG.alone;
      const of: HandlerCells = [
        known?.id ?? 0,
        before?.handler === handler.handler ? 0 : handler.handler,
        handler.timeoutMs,
        handler.ceilingMs ?? handler.timeoutMs,
        before?.args === handler.args ? 0 : handler.args,
        flags,
        before?.stopsOn === handler.stopsOn ? 0 : stopTags,
      ];
      cells.push(...of);
      before = handler;
    }
    return cells;
  }

  #hear(message: ToParent): void {
    switch (message[0]) {
      case 'outcomes':
        this.#outcomes(message);
        return;
      case 'restarted': {
        const state = this.#chains.get(message[1])?.state;
        if (state?.next !== message[2]) return;
        state.start = message[3];
        state.epoch++;
        return;
      }
      case 'call':
        this.#call(message);
        return;
      case 'loaded': {
        const [, load, report, durationMs] = message;
        this.#loaded(load, { kind: 'loaded', report, durationMs });
        return;
      }
      case 'load-failed': {
        const [, load, cause, text, line, column] = message;
        this.#loaded(load, { kind: 'failed', cause: causeOf(cause), message: text, line, column });
      }
    }
  }

  #outcomes(message: ToParent & readonly ['outcomes', ...unknown[]]): void {
    const [, chain, isOver] = message;
    const state = this.#chains.get(chain)?.state;
    if (state === undefined) return;
    for (let at = 3; at < message.length; at += OUTCOME_CELLS) {
      const [handler, kind, text, durationMs, detail] = message.slice(
        at,
        at + OUTCOME_CELLS,
      ) as unknown as OutcomeCells;
      if (state.next !== handler) continue;
      state.report(
        kind === '-' ? (state.lost.get(handler) ?? crashedOutcome) : outcomeOf(kind, text, durationMs, detail),
      );
    }
    if (!isOver) return;
    state.end();
    this.#forgetChain(chain);
  }

  #call([, chain, handler, start, number, answered, member, args, misfit]: ToParent &
    readonly ['call', ...unknown[]]): void {
    const state = this.#chains.get(chain)?.state;
    const plugin = state?.handler?.realm.pluginId;
    if (state === undefined || plugin === undefined || state.isOver || state.next !== handler) return;
    state.start = start;
    const before = state.asked[number];
    if (before !== undefined) {
      before.epoch = state.epoch;
      if (!answered) return;
      const { answer } = before;
      const isSame = before.member === member && before.args === args && answer !== null;
      if (!isSame) this.#answer(chain, state, handler, number, diverged);
      else if (answer !== undefined) this.#answer(chain, state, handler, number, answer);
      return;
    }
    // Ours counts without gaps and stops at the limit of open calls.
    if (number !== state.asked.length || (answered && state.open >= MAX_OPEN_CALLS)) {
      this.child.kill('gone');
      return;
    }
    const asked = {
      member,
      args,
      answer: answered ? undefined : null,
      epoch: state.epoch,
    } as ChainState['asked'][number];
    state.asked[number] = asked;
    const call = {
      handlerIndex: handler,
      pluginId: plugin,
      callNumber: number,
      member,
      args,
      misfit,
      signal: state.signal,
    };
    if (answered) state.open++;
    const reply = (answer: CallAnswer): void => {
      if (!answered) return;
      asked.answer = answer;
      if (state.asked[number] === asked) state.open--;
      // One that began again meanwhile gets it when it asks again.
      if (state.next === handler && !state.isOver && asked.epoch === state.epoch) state.answer(handler, number, answer);
    };
    // In order: the host sees a call only after it has seen those before it.
    try {
      state.run.onCall(call).then(reply, () => reply(unanswered));
    } catch {
      reply(unanswered);
    }
  }

  #answer(chain: number, state: ChainState, handler: number, number: number, answer: CallAnswer): void {
    if (!this.#chains.has(chain)) return;
    const isValue = answer.kind === 'value';
    const text = isValue ? answer.json : answer.message;
    this.child.say([
      'answer',
      chain,
      handler,
      state.start,
      number,
      isValue,
      text,
      isValue ? null : (answer.code ?? null),
    ]);
  }

  #loaded(id: number, outcome: LoadOutcome): void {
    const load = this.#loads.get(id);
    if (load === undefined) return;
    this.#loads.delete(id);
    load.settle(outcome);
    this.#release(load.known);
    this.#rest();
  }

  #forgetChain(id: number): void {
    const chain = this.#chains.get(id);
    if (chain === undefined) return;
    this.#chains.delete(id);
    this.#characters -= chain.state.run.input.length;
    for (const known of chain.realms) this.#release(known);
    while (this.#queue.length > 0 && this.#chains.size < WINDOW_CHAINS && this.#characters <= WINDOW_CHARACTERS) {
      const waiting = this.#queue.shift();
      if (waiting !== undefined) this.#dispatch(waiting);
    }
    this.#rest();
  }

  #rest(): void {
    this.lastUsed = monotonicMs();
    if (!this.isIdle) return;
    this.child.unwatch();
    this.#onIdle();
  }

  #define(realm: Realm): KnownRealm {
    const key = `${realm.account}\0${realm.pluginId}\0${realm.digest}\0${realm.isolation}`;
    const known = this.#realms.get(key);
    if (known !== undefined) {
      known.uses++;
      // Last in a Map is the most recently used.
      this.#realms.delete(key);
      this.#realms.set(key, known);
      return known;
    }
    const made: KnownRealm = { id: ++lastId, key, pluginId: realm.pluginId, uses: 1, isDoomed: false };
    this.#realms.set(key, made);
    const { account, fileName, code, guest, setup, isolation } = realm;
    this.child.say(['realm', made.id, account, fileName, code, guest, setup, isolation === 'fresh']);
    if (this.#realms.size > MAX_REALMS) {
      const [oldest] = this.#realms;
      if (oldest !== undefined) this.#doom(...oldest);
    }
    return made;
  }

  /** Dropped as soon as nothing under way needs it: a chain keeps the plugins it was opened with (MW-8). */
  #doom(key: string, known: KnownRealm): void {
    this.#realms.delete(key);
    known.isDoomed = true;
    if (known.uses === 0) this.child.say(['drop', known.id]);
  }

  #release(known: KnownRealm): void {
    known.uses--;
    if (known.uses === 0 && known.isDoomed) this.child.say(['drop', known.id]);
  }

  #blame(reason: Ending['reason'], marker: Marker): void {
    const load = this.#loads.get(marker.id);
    if (load !== undefined && marker.at === 'load') {
      this.#loads.delete(marker.id);
      load.settle(loadBlame(reason));
      return;
    }
    const chain = this.#chains.get(marker.id);
    if (chain === undefined) return;
    if (marker.at === 'together') {
      // Which of them it was shows when they are entered one by one; nothing of them had left the realms.
      chain.state.isCareful = true;
    } else if (marker.at !== 'outside') {
      const took = Math.max(0, monotonicMs() - marker.since);
      chain.state.lost.set(marker.handlerIndex, blame(reason, marker.at, took));
      const known = chain.realms[marker.handlerIndex];
      if (known !== undefined) this.#fatal.add(known.key);
    }
  }

  /** Blames the handler or load that the child ended in, and gives everything else back. */
  #leftovers({ reason, marker }: Ending): Leftovers {
    if (reason !== 'asked') this.#blame(reason, marker);
    const chains = [...this.#chains.values()].map(({ state }) => state);
    return { chains: [...chains, ...this.#queue], loads: [...this.#loads.values()] };
  }
}

const outcomeOf = (kind: '=' | '!' | '?', text: string, durationMs: number, detail: string): HandlerOutcome => {
  if (kind === '=') return { kind: 'returned', raw: text, durationMs, late: detail === 'late' };
  if (kind === '?') return { kind: 'not_loaded', message: text };
  const [cause = '', how = ''] = detail.split(' ');
  return {
    kind: 'failed',
    cause: cause === 'timed_out' ? 'timed_out' : 'crashed',
    detail: how,
    durationMs,
    notes: text,
  };
};

const diverged: CallAnswer = {
  kind: 'error',
  message: 'This handler had to begin again and asked for something else than before.',
  code: 'handler_restarted',
};

const unanswered: CallAnswer = { kind: 'error', message: 'The host could not answer.', code: 'host_failed' };

const blame = (reason: Ending['reason'], at: 'handler' | 'load', durationMs: number): HandlerOutcome => {
  if (at === 'load') {
    return {
      kind: 'not_loaded',
      message: reason === 'deadline' ? 'Loading took too long.' : 'Loading took the sandbox down.',
    };
  }
  if (reason === 'deadline') return { kind: 'failed', cause: 'timed_out', detail: 'killed', durationMs, notes: '' };
  return { kind: 'failed', cause: 'crashed', detail: reason === 'memory' ? 'memory' : 'killed', durationMs, notes: '' };
};

const loadBlame = (reason: Ending['reason']): LoadOutcome => ({
  kind: 'failed',
  cause: reason === 'deadline' ? 'timed_out' : 'crashed',
  message: reason === 'deadline' ? 'Loading took too long.' : 'Loading took the sandbox down.',
  line: null,
  column: null,
});

const causeOf = (cause: string): 'syntax' | 'threw' | 'timed_out' | 'crashed' =>
  cause === 'syntax' || cause === 'threw' || cause === 'timed_out' ? cause : 'crashed';
