import type { Settings } from '../../control/accounts/settings.js';

/** The hosts that a plugin may reach: its own list where the account gives it one, else the account's. */
export const hostsOf = (
  { fetchHosts, pluginFetchHosts }: Pick<Settings, 'fetchHosts' | 'pluginFetchHosts'>,
  pluginId: string,
): readonly string[] => (Object.hasOwn(pluginFetchHosts, pluginId) ? (pluginFetchHosts[pluginId] ?? []) : fetchHosts);

/**
 * Whether a list of hosts lets a URL through. `example.org` is that host, `*.example.org` everything below it; without
 * a port the ports 80 and 443 are meant, with one that port alone.
 */
export const mayReach = (hosts: readonly string[], url: URL): boolean => {
  const host = hostOf(url);
  const port = portOf(url);
  return hosts.some((rule) => {
    const [, name = '', own] = /^(.*?)(?::(\d{1,5}))?$/u.exec(rule.toLowerCase()) ?? [];
    const isPort = own === undefined ? port === 80 || port === 443 : Number(own) === port;
    return (
      isPort && (name.startsWith('*.') ? host.endsWith(name.slice(1)) && host.length > name.length - 1 : host === name)
    );
  });
};

/** Its host as DNS is asked for it: small letters, no brackets, no dot at the end. */
export const hostOf = ({ hostname }: URL): string =>
  hostname
    .toLowerCase()
    .replace(/^\[|\]$/gu, '')
    .replace(/\.$/u, '');

export const portOf = ({ port, protocol }: URL): number => {
  if (port !== '') return Number(port);
  return protocol === 'https:' ? 443 : 80;
};
