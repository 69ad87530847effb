import { createHash } from 'node:crypto';
import type { Dialect } from '#dialects';
import type { PluginSnapshot } from '#record';
import type { Sealing } from '#sealing';
import type { Realm } from '#sandbox';
import type { ReadyRealm, UnreadyRealm } from './active-plugins.js';
import { resolveSecrets, type SecretValues } from './secrets.js';

/** What opening a plugin's code and configuration needs. */
export interface RealmTools {
  readonly sealing: Sealing;
  readonly secrets: SecretValues;
  readonly dialectOf: (name: PluginSnapshot['dialect']) => Dialect;
}

/** Opens a plugin revision for the sandbox. Never rejects for what the plugin is; rejects when the database is away. */
export const openRealm = async (
  account: string,
  plugin: PluginSnapshot,
  { sealing, secrets, dialectOf }: RealmTools,
): Promise<ReadyRealm | UnreadyRealm> => {
  const [compiled, config] = await Promise.all([
    sealing.open(account, plugin.code.compiled),
    sealing.open(account, plugin.config),
  ]);
  if (compiled.kind === 'erased' || config.kind === 'erased') return unready('the code or configuration was erased');
  if (typeof compiled.value !== 'string') return unready('the stored code cannot be read');
  const resolved = await resolveSecrets(config.value, (name) => secrets.read(account, name));
  if (resolved.kind === 'missing') return unready(`secrets are not set: ${resolved.names.join(', ')}`);
  const dialect = dialectOf(plugin.dialect);
  const setup = dialect.setup({
    permissions: plugin.permissions,
    config: resolved.config,
    pluginId: plugin.id,
    ...registeredNames(plugin),
  });
  const guest = guestOf(dialect, plugin.code.language);
  const digest = digestOfParts([
    plugin.code.compiledDigest,
    plugin.configDigest,
    ...plugin.permissions,
    ...resolved.secretDigests,
    setup,
    guest.guest,
  ]);
  return {
    kind: 'ready',
    code: compiled.value,
    config: resolved.config,
    permissions: plugin.permissions,
    digest,
    realm: {
      account,
      pluginId: plugin.id,
      digest,
      code: compiled.value,
      fileName: fileNameOf(plugin),
      ...guest,
      setup,
      isolation: plugin.isolation,
    },
  };
};

/** The guest program for a language, as a realm names both. */
export const guestOf = (
  dialect: Pick<Dialect, 'guest' | 'guests'>,
  language: PluginSnapshot['code']['language'],
): Pick<Realm, 'guest' | 'language'> =>
  language === 'python'
    ? { guest: dialect.guests?.python ?? '', language: 'python' }
    : { guest: dialect.guest, language: 'javascript' };

/** Which class of its source a plugin is, and the name it is registered under, as its load said. */
export const registeredNames = ({
  findings,
}: Pick<PluginSnapshot, 'findings'>): { readonly className?: string; readonly pluginName?: string } => {
  const { class: className, pluginName } = findings.registrations;
  return {
    ...(typeof className === 'string' && className !== '' ? { className } : {}),
    ...(typeof pluginName === 'string' ? { pluginName } : {}),
  };
};

/** Name of a plugin's code in stack traces. */
export const fileNameOf = (plugin: { readonly id: string; readonly version: string }): string =>
  `${plugin.id}@${plugin.version}`;

const unready = (message: string): UnreadyRealm => ({ kind: 'not_loaded', message });

/** Each part with its length before it, so that no two lists give the same bytes. */
const digestOfParts = (parts: readonly string[]): string => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(`${String(part.length)}:`).update(part);
  return hash.digest('hex');
};
