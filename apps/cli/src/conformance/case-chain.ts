import { compile, derivePermissions } from '#dialects';
import type { CasePlugin, Dialect, SeenWarning } from '#dialects';
import type { FiringLink } from '#firing';
import { digestOf } from '#record';
import type { Realm, Sandbox } from '#sandbox';

/** The plugins of a case, compiled, granted and loaded as an install does it. */
export interface CaseChain {
  /** What loading warned of, in chain order. */
  readonly warnings: readonly SeenWarning[];
  linksFor(hook: string): { readonly links: readonly FiringLink[]; readonly withoutHook: number };
}

/** A source that does not load is reported and takes no part (MW-2). */
export const loadChain = async (
  plugins: readonly CasePlugin[],
  revoked: readonly string[],
  world: { readonly account: string; readonly dialect: Dialect; readonly sandbox: Sandbox },
): Promise<CaseChain> => {
  const loaded = await Promise.all(plugins.map((plugin) => load(plugin, revoked, world)));
  return {
    warnings: loaded.flatMap(({ warnings }) => warnings),
    linksFor: (hook) => {
      const places = loaded.filter(({ hooks }) => hooks.includes(hook));
      const links = places.flatMap(({ plugin, realm, permissions }) =>
        realm === null ? [] : [linkOf(plugin, realm, permissions, hook, world.dialect)],
      );
      return { links, withoutHook: loaded.filter(({ realm }) => realm !== null).length - links.length };
    },
  };
};

interface Loaded {
  readonly plugin: CasePlugin;
  readonly realm: Realm | null;
  readonly permissions: readonly string[];
  readonly hooks: readonly string[];
  readonly warnings: readonly SeenWarning[];
}

/** Longest that a source may take to be evaluated, ms. */
const loadMs = 5000;

const load = async (
  plugin: CasePlugin,
  revoked: readonly string[],
  { account, dialect, sandbox }: { readonly account: string; readonly dialect: Dialect; readonly sandbox: Sandbox },
): Promise<Loaded> => {
  const compiled = await compile({ source: plugin.code }, plugin.lang);
  if (compiled.kind === 'failed') return notLoaded(plugin, compiled.message);
  const permissions = derivePermissions(compiled.code).filter((permission) => !revoked.includes(permission));
  const setup = dialect.setup({ permissions, config: {} });
  const realm: Realm = {
    account,
    pluginId: plugin.plugin,
    digest: digestOf(`${compiled.code}\n${setup}`),
    code: compiled.code,
    fileName: `${plugin.plugin}@1.0.0`,
    guest: dialect.guest,
    setup,
    isolation: 'warm',
  };
  const outcome = await sandbox.load(realm, loadMs);
  if (outcome.kind === 'failed') return notLoaded(plugin, outcome.message);
  const { hooks, warnings } = dialect.readReport(outcome.report);
  return {
    plugin,
    realm,
    permissions,
    hooks,
    warnings: warnings.map((warning) => ({ plugin: plugin.plugin, ...warning })),
  };
};

const notLoaded = (plugin: CasePlugin, message: string): Loaded => ({
  plugin,
  realm: null,
  permissions: [],
  hooks: [],
  warnings: [{ plugin: plugin.plugin, code: 'plugin_load_failed', detail: message }],
});

const linkOf = (
  plugin: CasePlugin,
  realm: Realm,
  permissions: readonly string[],
  hook: string,
  dialect: Dialect,
): FiringLink => ({
  pluginId: plugin.plugin,
  mode: 'enforce',
  failureMode: 'open',
  entry: {
    pluginId: plugin.plugin,
    version: '1.0.0',
    revision: 1,
    mode: 'enforce',
    failureMode: 'open',
    priority: null,
    configDigest: digestOf('{}'),
  },
  realm,
  notLoaded: null,
  permissions,
  handler: hook,
  timeoutMs: dialect.entries.get(hook)?.defaultTimeoutMs ?? dialect.timeoutBounds.max,
});
