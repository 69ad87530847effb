import { compile } from '#dialects';
import type { Dialect, KohakuCasePlugin } from '#dialects';
import type { FiringLink } from '#firing';
import { timeoutOf } from '#plugins';
import { digestOf } from '#record';
import type { Realm, Sandbox } from '#sandbox';

/** A plugin of a case, loaded as an install loads it. */
export interface LoadedKohaku {
  readonly name: string;
  readonly realm: Realm;
  readonly hooks: readonly string[];
  readonly priority: number;
  isEnabled: boolean;
}

export interface KohakuWorld {
  readonly account: string;
  readonly dialect: Dialect;
  readonly sandbox: Sandbox;
}

/** Longest that a source may take to be evaluated, ms. */
const loadMs = 15_000;

/** What a case's source finds beside its own names: `LOG` and `MGR`, told as lines of the log. */
const prelude = {
  python: [
    'import json as _case_json',
    'class _CaseLog(list):',
    '    def append(self, item):',
    '        list.append(self, item)',
    '        print("LOG " + _case_json.dumps(item))',
    '    def extend(self, items):',
    '        for item in items: self.append(item)',
    'class _CaseManager:',
    '    def disable(self, name):',
    '        print("MGR " + _case_json.dumps(["disable", name]))',
    '        return True',
    '    def enable(self, name):',
    '        print("MGR " + _case_json.dumps(["enable", name]))',
    '        return True',
    'LOG = _CaseLog()',
    'MGR = _CaseManager()',
    '',
  ].join('\n'),
  javascript: [
    'const LOG = { push: (item) => console.log("LOG " + JSON.stringify(item)) };',
    'const MGR = { disable: (name) => console.log("MGR " + JSON.stringify(["disable", name])) };',
    '',
  ].join('\n'),
};

/** Loads a case's plugins in their order; a later one of a name takes the place of an earlier one. */
export const loadKohaku = async (
  plugins: readonly KohakuCasePlugin[],
  world: KohakuWorld,
): Promise<readonly LoadedKohaku[]> => {
  const last = plugins.filter(({ name }, index) => plugins.findLastIndex((other) => other.name === name) === index);
  const loaded: LoadedKohaku[] = [];
  for (const [index, plugin] of last.entries()) loaded.push(await load(plugin, index, world));
  return loaded.sort((a, b) => a.priority - b.priority);
};

const load = async (
  { name, priority, disabled, language, source }: KohakuCasePlugin,
  index: number,
  { account, dialect, sandbox }: KohakuWorld,
): Promise<LoadedKohaku> => {
  const compiled = await compile({ source: prelude[language] + source }, language, dialect.bundling);
  if (compiled.kind === 'failed') throw new Error(`${name} does not compile: ${compiled.message}`);
  const setup = dialect.setup({ permissions: [], config: {}, pluginId: name });
  const realm: Realm = {
    account,
    pluginId: name,
    digest: digestOf(`${String(index)}\n${compiled.code}\n${setup}`),
    code: compiled.code,
    fileName: `${name}.${language === 'python' ? 'py' : 'js'}`,
    guest: language === 'python' ? (dialect.guests?.python ?? '') : dialect.guest,
    setup,
    isolation: 'warm',
    language,
  };
  const outcome = await sandbox.load(realm, loadMs);
  if (outcome.kind === 'failed') throw new Error(`${name} does not load: ${outcome.message}`);
  const { hooks, registrations } = dialect.readReport(outcome.report);
  return { name, realm, hooks, priority: priority ?? (registrations.priority as number), isEnabled: !disabled };
};

/** A plugin's place in the chain of a hook. */
export const linkOf = (hook: string, { name, realm, priority }: LoadedKohaku, dialect: Dialect): FiringLink => ({
  pluginId: name,
  mode: 'enforce',
  failureMode: 'open',
  entry: {
    pluginId: name,
    version: '1.0.0',
    revision: 1,
    mode: 'enforce',
    failureMode: 'open',
    priority,
    configDigest: digestOf('{}'),
  },
  realm,
  notLoaded: null,
  permissions: [],
  handler: hook,
  timeoutMs: timeoutOf({}, hook, dialect, null, null),
});
