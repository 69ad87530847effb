import type { ChainRun, HandlerOutcome, HandlerRun, LoadOutcome, Realm, RunningChain, Sandbox } from './sandbox.js';
import { patchOf, withPatch } from './patches.js';

/**
 * One sandbox over two: JavaScript and Python. A chain of one language runs as it is; a mixed one runs in pieces, each
 * on the value that the pieces before it left. Every Python plugin is a piece of its own, since it has an interpreter
 * of its own. The Python side is started when it is first needed, and tried again where that failed.
 */
export const splitSandbox = (scripts: Sandbox, startPython: () => Promise<Sandbox>): Sandbox => {
  let starting: Promise<Sandbox> | null = null;
  let python: Sandbox | null = null;
  let isClosed = false;
  const pythonSandbox = (): Promise<Sandbox> => {
    starting ??= startPython().then(
      async (started) => {
        if (isClosed) await started.close();
        python = started;
        return started;
      },
      (error: unknown) => {
        starting = null;
        throw error;
      },
    );
    return starting;
  };
  const runOn = (chain: ChainRun, handlers: readonly HandlerRun[]): Promise<Sandbox> | Sandbox =>
    isPython(handlers[0]?.realm) ? (python ?? pythonSandbox()) : scripts;
  return {
    load: async (realm, budgetMs) => {
      if (!isPython(realm)) return scripts.load(realm, budgetMs);
      try {
        return await loadOn(python ?? (await pythonSandbox()), realm, budgetMs);
      } catch (error) {
        return { kind: 'failed', cause: 'crashed', message: wordsOf(error), line: null, column: null };
      }
    },
    run: (chain) =>
      chain.handlers.some(({ realm }) => isPython(realm)) ? new Pieces(chain, runOn) : scripts.run(chain),
    forget: (account, pluginId) => {
      scripts.forget(account, pluginId);
      python?.forget(account, pluginId);
    },
    health: () => {
      const health = scripts.health();
      const more = python?.health();
      if (more === undefined) return health;
      const missing = [...new Set([...health.missing, ...more.missing])];
      const state = missing.length === 0 ? 'ok' : 'degraded';
      return { state, missing, children: health.children + more.children };
    },
    close: async () => {
      isClosed = true;
      const started = await starting?.catch(() => null);
      await Promise.all([scripts.close(), started?.close()]);
    },
  };
};

/** A fresh realm has an interpreter that nobody else has, before or after. */
const loadOn = async (sandbox: Sandbox, realm: Realm, budgetMs: number): Promise<LoadOutcome> => {
  if (realm.isolation === 'warm') return sandbox.load(realm, budgetMs);
  const own = ownRealm(realm);
  try {
    return await sandbox.load(own, budgetMs);
  } finally {
    sandbox.forget(own.account, own.pluginId);
  }
};

let lastFresh = 0;

/** No plugin id has a NUL. */
const ownRealm = (realm: Realm): Realm => ({ ...realm, pluginId: `${realm.pluginId}\0fresh\0${String(++lastFresh)}` });

const isPython = (realm: Realm | undefined): boolean => realm?.language === 'python';

const wordsOf = (error: unknown): string => (error instanceof Error ? error.message : String(error)).slice(0, 1000);

type RunOn = (chain: ChainRun, handlers: readonly HandlerRun[]) => Promise<Sandbox> | Sandbox;

/** A chain in pieces, one after another. */
class Pieces implements RunningChain {
  readonly #chain: ChainRun;
  readonly #runOn: RunOn;
  readonly #outcomes: HandlerOutcome[] = [];
  readonly #waiting = new Map<number, PromiseWithResolvers<HandlerOutcome>>();
  #running: RunningChain | null = null;
  #isOver = false;

  constructor(chain: ChainRun, runOn: RunOn) {
    this.#chain = chain;
    this.#runOn = runOn;
    this.#walk().catch(() => this.#end());
  }

  result(index: number): Promise<HandlerOutcome> {
    const known = this.#outcomes[index];
    if (known !== undefined) return Promise.resolve(known);
    if (this.#isOver) return Promise.resolve({ kind: 'not_run' });
    const waiting = this.#waiting.get(index) ?? Promise.withResolvers<HandlerOutcome>();
    this.#waiting.set(index, waiting);
    return waiting.promise;
  }

  stop(): void {
    this.#running?.stop();
    this.#end();
  }

  async #walk(): Promise<void> {
    const { handlers } = this.#chain;
    let patches = '';
    for (let from = 0; from < handlers.length && this.#goesOn();) {
      const to = endOfPiece(handlers, from);
      const piece = handlers.slice(from, to);
      const running = await this.#start(from, piece, patches);
      for (let at = from; at < to && this.#goesOn(); at++) {
        const outcome = running === null ? unstarted : await running.result(at - from);
        if (outcome.kind === 'not_run') break;
        this.#report(at, outcome);
        const patch = outcome.kind === 'returned' && handlers[at]?.advances === true ? patchOf(outcome.raw) : null;
        if (patch !== null) patches = withPatch(patches, patch);
      }
      const last = this.#outcomes[to - 1];
      if (last === undefined || isStop(handlers[to - 1], last)) break;
      from = to;
    }
    this.#end();
  }

  /** Null where the language cannot be run at all. */
  async #start(from: number, handlers: readonly HandlerRun[], patches: string): Promise<RunningChain | null> {
    const chain = this.#chain;
    const on = this.#runOn(chain, handlers);
    const sandbox = on instanceof Promise ? await on.catch(() => null) : on;
    if (sandbox === null) return null;
    const [first] = handlers;
    const own = isPython(first?.realm) && first?.realm.isolation === 'fresh' ? ownRealm(first.realm) : null;
    this.#running = sandbox.run({
      ...chain,
      handlers: own === null ? handlers : handlers.map((handler) => ({ ...handler, realm: own })),
      input: patches === '' ? chain.input : patched(chain.input, patches),
      onCall: (call) => {
        const pluginId = handlers[call.handlerIndex]?.realm.pluginId ?? call.pluginId;
        return chain.onCall({
          handlerIndex: call.handlerIndex + from,
          pluginId,
          callNumber: call.callNumber,
          member: call.member,
          args: call.args,
          misfit: call.misfit,
          get signal() {
            return call.signal;
          },
        });
      },
    });
    if (own !== null) {
      const forget = (): void => sandbox.forget(own.account, own.pluginId);
      void this.#running.result(0).then(forget);
    }
    if (this.#isOver) this.#running.stop();
    return this.#running;
  }

  #goesOn(): boolean {
    return !this.#isOver;
  }

  #report(index: number, outcome: HandlerOutcome): void {
    this.#outcomes[index] = outcome;
    this.#waiting.get(index)?.resolve(outcome);
    this.#waiting.delete(index);
  }

  #end(): void {
    this.#isOver = true;
    for (const waiting of this.#waiting.values()) waiting.resolve({ kind: 'not_run' });
    this.#waiting.clear();
  }
}

const unstarted: HandlerOutcome = { kind: 'not_loaded', message: 'Python cannot be started on this server.' };

const endOfPiece = (handlers: readonly HandlerRun[], from: number): number => {
  const first = handlers[from];
  if (first === undefined || isPython(first.realm)) return from + 1;
  let to = from + 1;
  while (to < handlers.length && !isPython(handlers[to]?.realm)) to++;
  return to;
};

const isStop = (handler: HandlerRun | undefined, outcome: HandlerOutcome): boolean => {
  const stops = handler?.stopsOn ?? [];
  if (outcome.kind === 'returned') return outcome.raw !== '' && stops.includes(outcome.raw.charAt(0));
  return stops.includes('failed');
};

/** Own keys, `__proto__` as a plain one. */
const patched = (input: string, patches: string): string => {
  const fields = new Map(Object.entries(JSON.parse(input) as Record<string, unknown>));
  for (const patch of JSON.parse(`[${patches}]`) as Record<string, unknown>[]) {
    for (const [key, value] of Object.entries(patch)) fields.set(key, value);
  }
  return JSON.stringify(Object.fromEntries(fields));
};
