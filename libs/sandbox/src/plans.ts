import type { SandboxChild } from './child-process.js';
import type { ChainRun, HandlerRun, Realm } from './sandbox.js';
import { FLAG } from './wire.js';

/** Realms that one child knows; plans that were not used for longest go first. */
const MAX_REALMS = 128;
/** Plans for the same hook of an account: one in force, and those it replaced. */
const MAX_PLANS_OF_A_HOOK = 8;
/** Of realms that took a child down so many are remembered. */
const MAX_FATAL = 1000;

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

export interface KnownRealm {
  readonly id: number;
  readonly key: string;
  readonly pluginId: string;
  /** Plans and loads that need it. */
  uses: number;
}

/** Everything about a chain that is the same each time: who runs, in what order, for how long. Said to a child once. */
export interface Plan {
  readonly id: number;
  readonly hook: string;
  readonly handlers: readonly HandlerRun[];
  readonly pausing: readonly string[];
  readonly realms: readonly KnownRealm[];
  /** Chains under way. */
  uses: number;
  lastUsed: number;
  isDoomed: boolean;
}

let lastId = 0;

/** The realms and plans that a child was told. */
export class Plans {
  readonly #child: SandboxChild;
  readonly #fatal: FatalRealms;
  readonly #realms = new Map<string, KnownRealm>();
  readonly #plans = new Map<string, Plan[]>();
  #clock = 0;

  constructor(child: SandboxChild, fatal: FatalRealms) {
    this.#child = child;
    this.#fatal = fatal;
  }

  /** The plan of a chain, told to the child if it is new. To be given back with `release`. */
  use(run: ChainRun): Plan {
    const hook = `${run.account}\0${run.handlers[0]?.handler ?? ''}`;
    const known = this.#plans.get(hook)?.find((plan) => isPlanOf(plan, run)) ?? this.#make(hook, run);
    known.uses++;
    known.lastUsed = ++this.#clock;
    return known;
  }

  release(plan: Plan): void {
    plan.uses--;
    if (plan.isDoomed && plan.uses === 0) this.#drop(plan);
  }

  /** A realm by itself, for a load. To be given back with `releaseRealm`. */
  useRealm(realm: Realm): KnownRealm {
    const key = `${realm.account}\0${realm.pluginId}\0${realm.digest}\0${realm.isolation}`;
    const known = this.#realms.get(key);
    if (known !== undefined) {
      known.uses++;
      return known;
    }
    const made: KnownRealm = { id: ++lastId, key, pluginId: realm.pluginId, uses: 1 };
    this.#realms.set(key, made);
    const { account, fileName, code, guest, setup, isolation } = realm;
    const isFresh = isolation === 'fresh';
    this.#child.say(['realm', made.id, account, fileName, code, guest, setup, isFresh, this.#fatal.has(key)]);
    return made;
  }

  releaseRealm(known: KnownRealm): void {
    known.uses--;
    if (known.uses > 0) return;
    if (this.#realms.get(known.key) === known) this.#realms.delete(known.key);
    this.#child.say(['drop', known.id]);
  }

  /** Its realms go as soon as no chain under way needs them: a chain keeps the plugins it was opened with (MW-8). */
  forget(account: string, pluginId: string): void {
    const isIts = (known: KnownRealm): boolean => known.pluginId === pluginId && known.key.startsWith(`${account}\0`);
    for (const plans of [...this.#plans.values()]) {
      for (const plan of [...plans]) if (plan.realms.some(isIts)) this.#doom(plan);
    }
    for (const [key, known] of this.#realms) if (isIts(known)) this.#realms.delete(key);
  }

  #make(hook: string, run: ChainRun): Plan {
    const plan: Plan = {
      id: ++lastId,
      hook,
      handlers: run.handlers,
      pausing: run.pausingMembers,
      realms: run.handlers.map(({ realm }) => this.useRealm(realm)),
      uses: 0,
      lastUsed: 0,
      isDoomed: false,
    };
    const plans = this.#plans.get(hook);
    if (plans === undefined) this.#plans.set(hook, [plan]);
    else if (plans.unshift(plan) > MAX_PLANS_OF_A_HOOK) this.#doomOldest(plans, plan);
    this.#child.say(['plan', plan.id, run.account, run.pausingMembers, ...cellsOf(plan)]);
    while (this.#realms.size > MAX_REALMS && this.#doomOldest([...this.#plans.values()].flat(), plan));
    return plan;
  }

  /** False when all are in use. */
  #doomOldest(plans: readonly Plan[], except: Plan): boolean {
    let oldest: Plan | undefined;
    for (const plan of plans) {
      if (plan !== except && plan.uses === 0 && plan.lastUsed < (oldest?.lastUsed ?? Infinity)) oldest = plan;
    }
    if (oldest === undefined) return false;
    this.#doom(oldest);
    return true;
  }

  #doom(plan: Plan): void {
    plan.isDoomed = true;
    const left = this.#plans.get(plan.hook)?.filter((other) => other !== plan) ?? [];
    if (left.length === 0) this.#plans.delete(plan.hook);
    else this.#plans.set(plan.hook, left);
    if (plan.uses === 0) this.#drop(plan);
  }

  #drop(plan: Plan): void {
    this.#child.say(['drop-plan', plan.id]);
    for (const known of plan.realms) this.releaseRealm(known);
  }
}

const isPlanOf = (plan: Plan, { handlers, pausingMembers }: ChainRun): boolean => {
  if (plan.handlers === handlers && plan.pausing === pausingMembers) return true;
  if (plan.handlers.length !== handlers.length || !areSame(plan.pausing, pausingMembers)) return false;
  return plan.handlers.every((handler, index) => isSameHandler(handler, handlers[index]));
};

const isSameHandler = (a: HandlerRun, b: HandlerRun | undefined): boolean =>
  a.handler === b?.handler &&
  a.timeoutMs === b.timeoutMs &&
  a.ceilingMs === b.ceilingMs &&
  a.advances === b.advances &&
  areSame(a.stopsOn, b.stopsOn) &&
  isSameRealm(a.realm, b.realm);

const isSameRealm = (a: Realm, b: Realm): boolean =>
  a === b ||
  (a.pluginId === b.pluginId && a.digest === b.digest && a.isolation === b.isolation && a.account === b.account);

const areSame = (a: readonly string[], b: readonly string[]): boolean =>
  a === b || (a.length === b.length && a.every((item, index) => item === b[index]));

const cellsOf = ({ handlers, realms }: Plan): (string | number)[] =>
  handlers.flatMap((handler, index) => {
    let flags = handler.advances ? FLAG.advances : 0;
    if (handler.stopsOn.includes('failed')) flags |= FLAG.stopsOnFailure;
    const tags = handler.stopsOn.filter((tag) => tag !== 'failed').join('');
    return [
      realms[index]?.id ?? 0,
      handler.handler,
      handler.timeoutMs,
      handler.ceilingMs ?? handler.timeoutMs,
      flags,
      tags,
    ];
  });
