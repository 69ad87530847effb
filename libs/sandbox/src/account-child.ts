import type { ChainState } from './chain-state.js';
import { crashedOutcome } from './chain-state.js';
import { MAX_OPEN_CALLS } from './child/bootstrap.js';
import type { Ending, SandboxChild } from './child-process.js';
import { monotonicMs } from './marker.js';
import type { Marker } from './marker.js';
import type { CallAnswer, GuestCall, HandlerOutcome, HandlerRun, LoadOutcome, Realm } from './sandbox.js';
import { OUTCOME_CELLS } from './wire.js';
import type { OutcomeCells, ToParent } from './wire.js';
import { Plans } from './plans.js';
import type { FatalRealms, KnownRealm, Plan } from './plans.js';

/** Chains that are in a child at once; the others wait here, where a kill does not reach them. */
const WINDOW_CHAINS = 256;
const WINDOW_CHARACTERS = 32 * 1024 * 1024;
/** A chain that saw more children than it has handlers is not to blame, but cannot go on for ever either. */
const SPARE_DISPATCHES = 20;

interface PendingLoad {
  readonly realm: Realm;
  readonly budgetMs: number;
  readonly settle: (outcome: LoadOutcome) => void;
  dispatches: number;
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
  readonly #plans: Plans;
  readonly #chains = new Map<number, { readonly state: ChainState; readonly plan: Plan }>();
  readonly #loads = new Map<number, PendingLoad & { readonly known: KnownRealm }>();
  readonly #queue: ChainState[] = [];
  #characters = 0;

  constructor(child: SandboxChild, fatal: FatalRealms, onIdle: () => void, onLost: (left: Leftovers) => void) {
    this.child = child;
    this.#onIdle = onIdle;
    this.#fatal = fatal;
    this.#plans = new Plans(child, fatal);
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
    const known = this.#plans.useRealm(load.realm);
    this.#loads.set(id, { ...load, known });
    this.child.say(['load', id, known.id, load.budgetMs]);
    this.child.watch();
  }

  forget(account: string, pluginId: string): void {
    this.#plans.forget(account, pluginId);
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
    const plan = this.#plans.use(run);
    this.#chains.set(id, { state, plan });
    this.#characters += run.input.length;
    state.answer = (handler, call, answer) => this.#answer(id, state, handler, call, answer);
    state.whenStopped(() => {
      this.child.say(['stop', id]);
      this.#forgetChain(id);
    });
    const args = argsOf(run.handlers);
    if (state.next === 0 && state.lost.size === 0 && !state.isCareful)
      this.child.say(['run', id, plan.id, run.input, args]);
    else {
      const { patches, next, lost, isCareful } = state;
      this.child.say(['run', id, plan.id, run.input, args, patches, next, [...lost.keys()], isCareful]);
    }
    this.child.watch();
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
      if (state.next !== message[at]) continue;
      const kind = message[at + 1] as OutcomeCells[1];
      if (kind === '-') state.report(state.lost.get(state.next) ?? crashedOutcome);
      else
        state.report(outcomeOf(kind, message[at + 2] as string, message[at + 3] as number, message[at + 4] as string));
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
    const call: GuestCall = {
      handlerIndex: handler,
      pluginId: plugin,
      callNumber: number,
      member,
      args,
      misfit,
      // Made when somebody looks at it: most calls are over before anybody could end them.
      get signal() {
        return state.signalOf(handler);
      },
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
    this.#plans.releaseRealm(load.known);
    this.#rest();
  }

  #forgetChain(id: number): void {
    const chain = this.#chains.get(id);
    if (chain === undefined) return;
    this.#chains.delete(id);
    this.#characters -= chain.state.run.input.length;
    this.#plans.release(chain.plan);
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
      const known = chain.plan.realms[marker.handlerIndex];
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

/** One text where it is the same for all, as it mostly is. */
const argsOf = (handlers: readonly HandlerRun[]): string | readonly string[] => {
  const first = handlers[0]?.args ?? '';
  return handlers.every(({ args }) => args === first) ? first : handlers.map(({ args }) => args);
};

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
