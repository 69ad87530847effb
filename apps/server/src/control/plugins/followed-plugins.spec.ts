import { afterEach, describe, expect, it } from '@jest/globals';
import { middleware } from '#dialects';
import { LogUnavailable, memoryEventStore, type EventStore } from '#event-store';
import { chainFor, decide, decideOrder, foldPlugin, foldSet, type PluginCommand, type PluginState } from '#plugins';
import { pluginOrderStream, pluginStream, type Json } from '#record';
import { memorySealing, type Sealing } from '#sealing';
import { FollowedPlugins, type FollowedPluginsTools } from './followed-plugins.js';
import type { SecretValues } from './secrets.js';

const opened: FollowedPlugins[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((plugins) => plugins.close()));
});

const noSecrets: SecretValues = { read: () => Promise.resolve(null) };

const follow = (store: EventStore, sealing: Sealing, more: Partial<FollowedPluginsTools> = {}): FollowedPlugins => {
  const plugins = new FollowedPlugins({
    store,
    sealing,
    secrets: noSecrets,
    dialectOf: () => middleware,
    onFault: () => undefined,
    pollMs: 1,
    ...more,
  });
  opened.push(plugins);
  return plugins;
};

/** An administrator's side: decides on the log as it is and appends. */
const administrator = (store: EventStore, sealing: Sealing, account = 'acme') => {
  const circumstances = { actor: { kind: 'key', id: 'k' }, reason: null, factsOf: () => middleware } as const;
  const events = async (stream: string) => (await store.readStream(account, stream)).map(({ event }) => event);
  const run = async (id: string, command: PluginCommand): Promise<void> => {
    const before = await events(pluginStream(id));
    const decision = decide(command, foldPlugin(before), circumstances);
    if (decision.kind === 'refused') throw new Error(decision.refusal);
    await store.append({
      account,
      writes: [{ stream: pluginStream(id), expectedVersion: before.length, events: decision.events }],
    });
  };
  const sealed = async (value: Json) => (await sealing.envelope(account, { kind: 'account' })).seal(value);
  const state = async (id: string, config: Json = {}): Promise<PluginState> => ({
    id,
    name: id,
    dialect: 'middleware',
    version: '1',
    enabled: true,
    priority: null,
    failureMode: 'open',
    mode: 'enforce',
    isolation: 'warm',
    timeouts: {},
    permissions: [],
    config: await sealed(config),
    configDigest: JSON.stringify(config),
    configSchema: null,
    code: {
      language: 'javascript',
      source: await sealed({ source: `/* ${id} */` }),
      sourceDigest: id,
      compiled: await sealed(`/* ${id} */`),
      compiledDigest: id,
      compiler: null,
    },
    findings: { hooks: ['systemPrompt'], gated: [], requestedPermissions: [], warnings: [], registrations: {} },
  });
  return {
    run,
    install: async (id: string, config?: Json) => run(id, { kind: 'install', plugin: await state(id, config) }),
    reorder: async (...ids: string[]) => {
      const all = (await store.readAccount(account, { limit: 1000 })).map(({ event }) => event);
      const decision = decideOrder(ids, foldSet(all), circumstances);
      if (decision.kind === 'refused') throw new Error(decision.refusal);
      const { length } = await events(pluginOrderStream);
      await store.append({
        account,
        writes: [{ stream: pluginOrderStream, expectedVersion: length, events: decision.events }],
      });
    },
    configure: async (id: string, config: Json) =>
      run(id, {
        kind: 'change',
        patch: { config: { sealed: await sealed(config), digest: JSON.stringify(config) } },
      }),
    setSecret: (name: string) =>
      store.append({
        account,
        writes: [
          { stream: `secret/${name}`, expectedVersion: 'any', events: [{ type: 'secret.set', data: { name } }] },
        ],
      }),
  };
};

const ids = async (plugins: FollowedPlugins, account = 'acme'): Promise<readonly string[]> =>
  (await plugins.get(account)).set.order;

const until = async (holds: () => Promise<boolean>): Promise<void> => {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 1));
};

const setUp = (more: Partial<FollowedPluginsTools> = {}) => {
  const store = memoryEventStore();
  const sealing = memorySealing();
  return { store, sealing, plugins: follow(store, sealing, more), admin: administrator(store, sealing) };
};

describe('the plugins in force', () => {
  it('are none for an account that has none', async () => {
    const { plugins } = setUp();
    const { set, position } = await plugins.get('nobody');
    expect([set.order, position]).toEqual([[], -1n]);
  });

  it('are those of the account alone, in its order', async () => {
    const { store, sealing, plugins, admin } = setUp();
    await admin.install('a');
    await admin.install('b');
    await administrator(store, sealing, 'other').install('c');
    await admin.reorder('b', 'a');
    expect(await ids(plugins)).toEqual(['b', 'a']);
    expect(await ids(plugins, 'other')).toEqual(['c']);
  });

  it('are those of a log of many pages', async () => {
    const { plugins, admin } = setUp();
    const all = Array.from({ length: 1001 }, (_, n) => `p${String(n)}`);
    for (const id of all) await admin.install(id);
    const { set, position } = await plugins.get('acme');
    expect(set.order).toEqual(all);
    expect(position).toBe(1000n);
  });

  it('hold what was committed before a refresh, at once', async () => {
    const { plugins, admin } = setUp({ pollMs: 1e9 });
    await plugins.get('acme');
    await admin.install('a');
    expect(await ids(plugins)).toEqual([]);
    await plugins.refresh('acme');
    expect(await ids(plugins)).toEqual(['a']);
    await Promise.all([plugins.refresh('acme'), admin.install('b').then(() => plugins.refresh('acme'))]);
    expect(await ids(plugins)).toEqual(['a', 'b']);
    await admin.install('c');
    expect((await plugins.current('acme')).set.order).toEqual(['a', 'b', 'c']);
  });

  it('follow what another replica committed', async () => {
    const { store, sealing, plugins, admin } = setUp();
    const replica = follow(store, sealing);
    await Promise.all([plugins.get('acme'), replica.get('acme')]);
    await admin.install('a');
    await until(async () => (await ids(replica)).length === 1 && (await ids(plugins)).length === 1);
    await admin.run('a', { kind: 'uninstall' });
    await until(async () => (await ids(replica)).length === 0);
  });

  it('lose no change that falls between loading and following', async () => {
    const store = memoryEventStore();
    const sealing = memorySealing();
    const admin = administrator(store, sealing);
    let raced = false;
    const racing: EventStore = {
      ...store,
      readAccount: async (account, range) => {
        const events = await store.readAccount(account, range);
        if (!raced) {
          raced = true;
          await admin.install('late');
        }
        return events;
      },
    };
    const plugins = follow(racing, sealing);
    expect(await ids(plugins)).toEqual([]);
    await until(async () => (await ids(plugins)).includes('late'));
  });

  it('never change under whoever holds them', async () => {
    const { plugins, admin } = setUp();
    await admin.install('a');
    const before = await plugins.get('acme');
    await admin.install('b');
    await plugins.refresh('acme');
    expect(before.set.order).toEqual(['a']);
  });

  it('of a past position are what was in force there', async () => {
    const { plugins, admin } = setUp();
    await admin.install('a');
    await admin.install('b');
    await admin.reorder('b', 'a');
    const chain = async (position: bigint): Promise<readonly string[]> =>
      chainFor((await plugins.at('acme', position)).set, 'middleware', 'systemPrompt').places.map(
        ({ entry }) => entry.pluginId,
      );
    await plugins.get('acme');
    expect(await chain(0n)).toEqual(['a']);
    expect(await chain(1n)).toEqual(['a', 'b']);
    expect(await chain(2n)).toEqual(['b', 'a']);
    expect(await chain(99n)).toEqual(['b', 'a']);
  });

  it('are loaded anew after an account was let go of', async () => {
    const { store, sealing, plugins, admin } = setUp({ maxAccounts: 1 });
    await admin.install('a');
    await administrator(store, sealing, 'other').install('b');
    expect(await ids(plugins)).toEqual(['a']);
    expect(await ids(plugins, 'other')).toEqual(['b']);
    await admin.install('c');
    expect(await ids(plugins)).toEqual(['a', 'c']);
  });

  it('that cannot be loaded reject, and are there when the log is back', async () => {
    const store = memoryEventStore();
    const sealing = memorySealing();
    await administrator(store, sealing).install('a');
    let away = true;
    const failing: EventStore = {
      ...store,
      head: () => (away ? Promise.reject(new LogUnavailable('away')) : store.head()),
      readAccount: (account, range) =>
        away ? Promise.reject(new LogUnavailable('away')) : store.readAccount(account, range),
    };
    const faults: unknown[] = [];
    const plugins = follow(failing, sealing, { onFault: (error) => faults.push(error) });
    await expect(plugins.get('acme')).rejects.toThrow(LogUnavailable);
    away = false;
    expect(await ids(plugins)).toEqual(['a']);
    away = true;
    await until(() => Promise.resolve(faults.length > 0));
    expect(await ids(plugins)).toEqual(['a']);
    await administrator(store, sealing).install('b');
    away = false;
    await until(async () => (await ids(plugins)).length === 2);
  });
});

describe('the realm of a plugin', () => {
  const digestOf = async (plugins: FollowedPlugins, id = 'a'): Promise<string | null> => {
    const active = await plugins.get('acme');
    const plugin = active.set.plugins.get(id);
    if (plugin === undefined) return null;
    const realm = await active.realmFor(plugin);
    return realm.kind === 'ready' ? realm.digest : null;
  };

  it('has the compiled code, and its configuration in the setup', async () => {
    const { plugins, admin } = setUp();
    await admin.install('a', { word: 'w' });
    const active = await plugins.get('acme');
    const plugin = active.set.plugins.get('a');
    if (plugin === undefined) throw new Error('not installed');
    expect(active.readyRealm(plugin)).toBeNull();
    const realm = await active.realmFor(plugin);
    expect(realm).toMatchObject({ kind: 'ready', code: '/* a */', config: { word: 'w' } });
    expect(active.readyRealm(plugin)).toBe(realm);
    if (realm.kind === 'ready') expect(JSON.parse(realm.realm.setup)).toMatchObject({ config: { word: 'w' } });
  });

  it('has a digest that changes with configuration and permissions, and with nothing else', async () => {
    const { plugins, admin } = setUp();
    await admin.install('a');
    const seen = [await digestOf(plugins)];
    const step = async (work: () => Promise<void>): Promise<void> => {
      await work();
      await plugins.refresh('acme');
      seen.push(await digestOf(plugins));
    };
    await step(() => admin.run('a', { kind: 'change', patch: { priority: 5, mode: 'observe' } }));
    expect(seen[1]).toBe(seen[0]);
    await step(() => admin.configure('a', { b: 1 }));
    await step(() => admin.run('a', { kind: 'change', patch: { permissions: ['host:fetch'] } }));
    expect(new Set(seen.slice(1)).size).toBe(3);
    await step(() => admin.configure('a', {}));
    await step(() => admin.run('a', { kind: 'change', patch: { permissions: [] } }));
    expect(seen[5]).toBe(seen[0]);
  });

  it('waits for a secret, and changes with it', async () => {
    let value: string | null = null;
    const secrets: SecretValues = {
      read: () => Promise.resolve(value === null ? null : { value, digest: `digest of ${value}` }),
    };
    const { plugins, admin } = setUp({ secrets, pollMs: 1e9 });
    await admin.install('a', { deep: [{ key: { $secret: 'token' } }] });
    expect(await digestOf(plugins)).toBeNull();
    value = 'first';
    const first = await digestOf(plugins);
    expect(first).not.toBeNull();
    value = 'second';
    expect(await digestOf(plugins)).toBe(first);
    await admin.setSecret('token');
    await plugins.refresh('acme');
    expect(await digestOf(plugins)).not.toBe(first);
    const active = await plugins.get('acme');
    const plugin = active.set.plugins.get('a');
    if (plugin === undefined) throw new Error('not installed');
    expect(await active.realmFor(plugin)).toMatchObject({ config: { deep: [{ key: 'second' }] } });
  });

  it('of code that was erased is not loaded', async () => {
    const store = memoryEventStore();
    const sealing = memorySealing();
    await administrator(store, sealing).install('a');
    await sealing.erase('acme', { kind: 'account' });
    const active = await follow(store, sealing).get('acme');
    const plugin = active.set.plugins.get('a');
    if (plugin === undefined) throw new Error('not installed');
    expect(await active.realmFor(plugin)).toMatchObject({ kind: 'not_loaded' });
  });

  it('of an earlier revision is still had by an invocation that began with it', async () => {
    const { plugins, admin } = setUp();
    await admin.install('a', { n: 1 });
    const before = await plugins.get('acme');
    const plugin = before.set.plugins.get('a');
    if (plugin === undefined) throw new Error('not installed');
    await admin.configure('a', { n: 2 });
    await plugins.refresh('acme');
    const now = await digestOf(plugins);
    expect(await before.realmFor(plugin)).toMatchObject({ kind: 'ready', config: { n: 1 } });
    expect(await digestOf(plugins)).toBe(now);
  });
});
