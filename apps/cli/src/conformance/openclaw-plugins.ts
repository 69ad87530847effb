import { compile, openclaw } from '#dialects';
import type { Arranged, CaseHandler, CasePolicy, Dialect } from '#dialects';
import { deliverResolution } from '#firing';
import type { FiringLink } from '#firing';
import { timeoutOf } from '#plugins';
import { digestOf } from '#record';
import type { JsonObject } from '#record';
import type { Realm, Sandbox } from '#sandbox';

/** A handler or a policy of a case, written, compiled and loaded as a plugin of its own. */
export interface LoadedPlugin {
  readonly id: string;
  readonly realm: Realm;
  readonly registrations: JsonObject;
  /** The policy it is; null: it is a handler. */
  readonly policy: string | null;
}

export interface PluginWorld {
  readonly account: string;
  readonly dialect: Dialect;
  readonly sandbox: Sandbox;
}

/** Longest that a source may take to be evaluated, ms. */
const loadMs = 5000;

/** Loads a case's handlers, each in the order of the case, so that ties keep it. */
export const loadHandlers = (
  hook: string,
  handlers: readonly CaseHandler[],
  world: PluginWorld,
): Promise<readonly LoadedPlugin[]> =>
  Promise.all(
    handlers.map((handler, index) => load(handler.pluginId, handlerSource(hook, handler), null, index, world)),
  );

export const loadPolicies = (policies: readonly CasePolicy[], world: PluginWorld): Promise<readonly LoadedPlugin[]> =>
  Promise.all(policies.map((policy, index) => load(policy.pluginId, policySource(policy), policy.id, index, world)));

/** The chain of a hook for one event, as an install and a firing make it. */
export const linksOf = (
  hook: string,
  plugins: readonly LoadedPlugin[],
  input: JsonObject,
  { dialect }: PluginWorld,
): readonly FiringLink[] => {
  const arranged = dialect.arrange?.({
    hook,
    plugins: plugins.map(({ id, registrations }) => ({ id, registrations, gates: { allowConversationAccess: true } })),
    input,
  });
  return (arranged ?? []).flatMap((place) => {
    const plugin = plugins[place.plugin];
    return plugin === undefined ? [] : [linkOf(hook, place, plugin, dialect)];
  });
};

const linkOf = (hook: string, place: Arranged, plugin: LoadedPlugin, dialect: Dialect): FiringLink => ({
  pluginId: plugin.id,
  mode: 'enforce',
  failureMode: 'open',
  entry: {
    pluginId: plugin.id,
    version: '1.0.0',
    revision: 1,
    mode: 'enforce',
    failureMode: 'open',
    priority: place.priority,
    configDigest: digestOf('{}'),
  },
  realm: plugin.realm,
  notLoaded: null,
  permissions: [],
  handler: place.handler,
  timeoutMs: place.hasNoLimit ? dialect.timeoutBounds.max : timeoutOf({}, hook, dialect, null, place.timeoutMs),
  isPolicy: place.isPolicy,
  applies: place.applies,
  ...(place.readAs === undefined ? {} : { readAs: place.readAs }),
  ...(place.evaluatorId === undefined ? {} : { evaluatorId: place.evaluatorId }),
});

const load = async (
  id: string,
  source: string,
  policy: string | null,
  index: number,
  { account, dialect, sandbox }: PluginWorld,
): Promise<LoadedPlugin> => {
  const manifest = JSON.stringify({ id, contracts: { trustedToolPolicies: policy === null ? [] : [policy] } });
  const compiled = await compile(
    { files: { 'index.js': source, 'openclaw.plugin.json': manifest }, entry: 'index.js' },
    'javascript',
    openclaw.bundling,
  );
  if (compiled.kind === 'failed') throw new Error(`${id} does not compile: ${compiled.message}`);
  const setup = dialect.setup({ permissions: [], config: {}, pluginId: id });
  const realm: Realm = {
    account,
    pluginId: id,
    digest: digestOf(`${String(index)}\n${compiled.code}\n${setup}`),
    code: compiled.code,
    fileName: `${id}@1.0.0`,
    guest: dialect.guest,
    setup,
    isolation: 'warm',
  };
  const outcome = await sandbox.load(realm, loadMs);
  if (outcome.kind === 'failed') throw new Error(`${id} does not load: ${outcome.message}`);
  await warmUp(realm, sandbox);
  return { id, realm, registrations: dialect.readReport(outcome.report).registrations, policy };
};

/** A host's plugins are loaded long before a hook fires: nobody's time is spent on it. */
const warmUp = (realm: Realm, sandbox: Sandbox): Promise<unknown> =>
  deliverResolution(sandbox, {
    account: realm.account,
    realm,
    ticket: 'none',
    decision: 'cancelled',
    onCall: () => Promise.resolve({ kind: 'value', json: 'null' }),
  });

/** What a behaviour gets as `h`; a note is a line of the log that begins with the key it is recorded under. */
const helpers = (key: string): string => `const h = {
  sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  never: () => new Promise(() => { setTimeout(() => undefined, 2147483647); }),
  note: (x) => console.log("note " + JSON.stringify([${JSON.stringify(key)}, x === undefined ? null : x])),
};`;

const handlerSource = (hook: string, { pluginId, behaviour, options }: CaseHandler): string => `${helpers(pluginId)}
import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";
export default definePluginEntry({
  id: ${JSON.stringify(pluginId)},
  register(api) {
    api.on(${JSON.stringify(hook)}, (event, ctx) => { ${behaviour}\n }, ${JSON.stringify(options)});
  },
});
`;

const policySource = ({ pluginId, id, behaviour }: CasePolicy): string => `${helpers(`${pluginId}/${id}`)}
import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";
export default definePluginEntry({
  id: ${JSON.stringify(pluginId)},
  register(api) {
    api.registerTrustedToolPolicy({
      id: ${JSON.stringify(id)},
      description: "of a case",
      evaluate: async (event, ctx) => { ${behaviour}\n },
    });
  },
});
`;
