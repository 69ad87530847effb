import type { EventStore, StoredEvent } from '#event-store';
import { evolveSet, noPlugins, pluginChangeTypes, type PluginSet } from '#plugins';
import type { EventType, PluginSnapshot } from '#record';
import { ActivePlugins, type ActiveSet, type ReadyRealm, type UnreadyRealm } from './active-plugins.js';
import { openRealm, type RealmTools } from './realms.js';

/** What the view is made from; `now` tells which account was used last. */
export interface FollowedPluginsTools extends RealmTools {
  readonly store: EventStore;
  /** Told when the log could not be followed; the next look tries again. */
  readonly onFault: (error: unknown) => void;
  /** Time between two looks at the log, ms. Default 100. */
  readonly pollMs?: number;
  /** Most accounts kept in memory. Default 1000. */
  readonly maxAccounts?: number;
  /** Most characters of code kept in memory, all accounts together. Default 128 Mi. */
  readonly maxCode?: number;
}

/** What changes an account's view: its plugins, and the secrets that their configurations refer to. */
const watched: readonly EventType[] = [...pluginChangeTypes, 'secret.set'];

const page = 500;

/** Sets of past positions that are kept, all accounts together. */
const maxPast = 64;

/**
 * Folds the log of each account that is asked for, and looks for changes on every replica by polling: the poll only
 * finds out *whose* plugins changed, the account's own log says how, so a missed or repeated look does no harm.
 */
export class FollowedPlugins extends ActivePlugins {
  /** By account, the least recently used first. */
  private readonly accounts = new Map<string, FollowedAccount>();
  private readonly past = new Map<string, Promise<ActiveSet>>();
  private cursor: bigint | null = null;
  private starting: Promise<void> | null = null;
  private looking: Promise<void> | null = null;
  private timer: NodeJS.Timeout | null = null;
  private closed = false;

  constructor(private readonly tools: FollowedPluginsTools) {
    super();
  }

  async get(account: string): Promise<ActiveSet> {
    const known = this.accounts.get(account);
    if (known !== undefined) {
      this.touch(account, known);
      return known.current ?? known.refresh();
    }
    await this.start();
    const entry = this.accounts.get(account) ?? new FollowedAccount(account, this.tools);
    this.touch(account, entry);
    const set = await entry.refresh();
    this.shrink();
    return set;
  }

  async current(account: string): Promise<ActiveSet> {
    await this.get(account);
    return (await this.accounts.get(account)?.refresh()) ?? this.get(account);
  }

  async at(account: string, position: bigint): Promise<ActiveSet> {
    // What is known may lag behind a position that another replica gave; the log does not.
    const current = await this.accounts.get(account)?.refresh();
    if (current !== undefined && current.position <= position) return current;
    const key = `${String(position)}/${account}`;
    const known = this.past.get(key);
    if (known !== undefined) return known;
    const made = pastSet(account, position, this.tools);
    this.past.set(key, made);
    for (const oldest of [...this.past.keys()].slice(0, Math.max(0, this.past.size - maxPast)))
      this.past.delete(oldest);
    return made.catch((error: unknown) => {
      this.past.delete(key);
      throw error;
    });
  }

  async refresh(account: string): Promise<void> {
    await this.accounts.get(account)?.refresh();
  }

  /** Ends the following; what is known can still be read. */
  async close(): Promise<void> {
    this.closed = true;
    if (this.timer !== null) clearTimeout(this.timer);
    await this.looking;
  }

  private touch(account: string, entry: FollowedAccount): void {
    this.accounts.delete(account);
    this.accounts.set(account, entry);
  }

  private shrink(): void {
    const { maxAccounts = 1000, maxCode = 128 * 1024 * 1024 } = this.tools;
    let code = 0;
    for (const entry of this.accounts.values()) code += entry.codeSize;
    for (const [account, entry] of this.accounts) {
      if (this.accounts.size <= 1 || (this.accounts.size <= maxAccounts && code <= maxCode)) return;
      code -= entry.codeSize;
      this.accounts.delete(account);
    }
  }

  /** The cursor stands before the first account is read, so that no change falls between the two. */
  private start(): Promise<void> {
    this.starting ??= this.tools.store.head().then(
      (head) => {
        this.cursor = head;
        this.watch();
      },
      (error: unknown) => {
        this.starting = null;
        throw error;
      },
    );
    return this.starting;
  }

  private watch(): void {
    if (this.timer !== null || this.closed) return;
    this.timer = setTimeout(() => {
      this.looking = this.look()
        .catch(this.tools.onFault)
        .finally(() => {
          this.timer = null;
          this.watch();
        });
    }, this.tools.pollMs ?? 100);
    this.timer.unref();
  }

  /** Finds whose plugins changed since the last look and folds them on. */
  private async look(): Promise<void> {
    this.shrink();
    const { store } = this.tools;
    const head = await store.head();
    let cursor = this.cursor ?? head;
    const changed = new Set<string>();
    while (cursor < head) {
      const events = await store.readAll(cursor, page, watched);
      for (const { event } of events) changed.add(event.account);
      const last = events.at(-1)?.globalPosition ?? head;
      cursor = events.length < page && last < head ? head : last;
    }
    await Promise.all([...changed].map((account) => this.refresh(account)));
    this.cursor = cursor;
  }
}

/** One account's set, folded on from where it stands. */
class FollowedAccount {
  current: ActiveSet | null = null;
  private realms = new Realms(this.account, this.tools);
  private folding: Promise<ActiveSet> | null = null;
  private again = false;

  constructor(
    private readonly account: string,
    private readonly tools: FollowedPluginsTools,
  ) {}

  get codeSize(): number {
    return this.realms.codeSize;
  }

  /** The set with everything committed before this call. Calls that come while one runs share the next. */
  refresh(): Promise<ActiveSet> {
    if (this.folding !== null) {
      this.again = true;
      return this.folding;
    }
    this.folding = this.fold();
    return this.folding;
  }

  private async fold(): Promise<ActiveSet> {
    try {
      let folded = await this.foldOnce();
      while (this.again) {
        this.again = false;
        folded = await this.foldOnce();
      }
      return folded;
    } finally {
      // In the same step as the last look at `again`: a call after this folds anew.
      this.folding = null;
      this.again = false;
    }
  }

  private async foldOnce(): Promise<ActiveSet> {
    let set = this.current?.set ?? noPlugins;
    let position = this.current?.position ?? -1n;
    let secretSet = false;
    for await (const { event, position: at } of changesAfter(this.tools.store, this.account, position)) {
      set = evolveSet(set, event);
      position = at;
      secretSet ||= event.type === 'secret.set';
    }
    if (secretSet) this.realms = new Realms(this.account, this.tools);
    this.realms.keepOnly(set);
    this.current = activeSet(set, position, this.realms);
    return this.current;
  }
}

const activeSet = (set: PluginSet, position: bigint, realms: Realms): ActiveSet => ({
  position,
  set,
  realmFor: (plugin) => realms.get(plugin),
  readyRealm: (plugin) => realms.ready(plugin),
});

const pastSet = async (account: string, position: bigint, tools: FollowedPluginsTools): Promise<ActiveSet> => {
  let set = noPlugins;
  let at = -1n;
  for await (const stored of changesAfter(tools.store, account, -1n, position)) {
    set = evolveSet(set, stored.event);
    at = stored.position;
  }
  return activeSet(set, at, new Realms(account, tools));
};

/** The account's watched events after a position, page by page. One append is never seen in part at the end. */
async function* changesAfter(
  store: EventStore,
  account: string,
  after: bigint,
  until?: bigint,
): AsyncGenerator<StoredEvent> {
  let from = after;
  for (;;) {
    const events = await store.readAccount(account, {
      ...(from < 0n ? {} : { after: from }),
      ...(until === undefined ? {} : { until }),
      limit: page,
      types: watched,
      order: 'oldest',
    });
    yield* events;
    const last = events.at(-1);
    if (last === undefined || events.length < page) return;
    from = last.position;
  }
}

/** Opened revisions of one account's plugins. */
class Realms {
  codeSize = 0;
  private readonly opened = new Map<string, Opened>();

  constructor(
    private readonly account: string,
    private readonly tools: RealmTools,
  ) {}

  get(plugin: PluginSnapshot): Promise<ReadyRealm | UnreadyRealm> {
    const known = this.opened.get(plugin.id);
    if (known?.revision === plugin.revision) return known.realm;
    // An invocation that opened before a change may still ask for what it began with; that is not kept.
    if (known !== undefined && known.revision > plugin.revision) return openRealm(this.account, plugin, this.tools);
    return this.open(plugin);
  }

  ready(plugin: PluginSnapshot): ReadyRealm | null {
    const known = this.opened.get(plugin.id);
    return known?.revision === plugin.revision ? known.ready : null;
  }

  keepOnly(set: PluginSet): void {
    for (const [id, { revision }] of this.opened) {
      if (set.plugins.get(id)?.revision !== revision) this.forget(id);
    }
  }

  private async open(plugin: PluginSnapshot): Promise<ReadyRealm | UnreadyRealm> {
    this.forget(plugin.id);
    const opened: Opened = {
      revision: plugin.revision,
      ready: null,
      realm: openRealm(this.account, plugin, this.tools),
    };
    this.opened.set(plugin.id, opened);
    try {
      const realm = await opened.realm;
      // What is not ready may be ready next time: a secret is set, an account's key comes back.
      if (this.opened.get(plugin.id) !== opened) return realm;
      if (realm.kind === 'not_loaded') this.opened.delete(plugin.id);
      else {
        opened.ready = realm;
        this.codeSize += realm.code.length;
      }
      return realm;
    } catch (error) {
      if (this.opened.get(plugin.id) === opened) this.opened.delete(plugin.id);
      throw error;
    }
  }

  private forget(id: string): void {
    this.codeSize -= this.opened.get(id)?.ready?.code.length ?? 0;
    this.opened.delete(id);
  }
}

interface Opened {
  readonly revision: number;
  readonly realm: Promise<ReadyRealm | UnreadyRealm>;
  ready: ReadyRealm | null;
}
