import { dialectOf } from '#dialects';
import type { Settings } from './settings.js';

/**
 * Whether a change of settings weakens enforcement (docs/security.md, what weakens enforcement; what a change of one
 * plugin does is `weakens` of #plugins). It does when, whatever else it does,
 * - `timeouts`: handlers of a dialect have less time at some hook, so that guards are skipped sooner;
 * - `openclawHookGates`: a plugin loses a gate that it had, so that hooks of it no longer run;
 * - `fetchHosts`, `pluginFetchHosts`: a plugin may reach a host that it could not;
 * - `breadthPerRoot`: more may descend from one root, or any number;
 * - `approvalGrants`, `selfApproval` come on or `strictApprovals` goes off: less is asked, or of the wrong person;
 * - `installPolicy`: a plugin may come in that could not: no policy, a wider `allow`, a shorter `deny`, no digests;
 * - `circuitBreaker`: the platform may disable a guard that it might not, or sooner.
 * Rules are compared as they are written: one that says the same in other words counts as a change for the worse.
 */
export const settingsWeaken = (before: Settings, after: Settings): boolean =>
  lessTime(before.timeouts, after.timeouts) ||
  gateCloses(before.openclawHookGates, after.openclawHookGates) ||
  reachesFurther(before, after) ||
  (after.breadthPerRoot ?? Infinity) > (before.breadthPerRoot ?? Infinity) ||
  (after.approvalGrants && !before.approvalGrants) ||
  (after.selfApproval && !before.selfApproval) ||
  (before.strictApprovals && !after.strictApprovals) ||
  letsMoreIn(before.installPolicy, after.installPolicy) ||
  tripsSooner(before.circuitBreaker, after.circuitBreaker);

/** A halt that passes everything takes every guard away; one that cancels what can be cancelled takes none. */
export const haltWeakens = (failureMode: 'open' | 'closed'): boolean => failureMode === 'open';

type DialectName = keyof Settings['timeouts'];

const dialects: readonly DialectName[] = ['middleware', 'openclaw', 'kohaku'];

/** The own limits of dialects that this program does not run, ms. */
const ownLimits: { readonly [D in DialectName]?: number } = { kohaku: 5_000 };

const lessTime = (before: Settings['timeouts'], after: Settings['timeouts']): boolean =>
  dialects.some((name) => limitsOf(name).some((own) => (after[name] ?? own) < (before[name] ?? own)));

const limitsOf = (name: DialectName): readonly number[] => {
  const dialect = dialectOf(name);
  if (dialect === undefined) return [ownLimits[name] ?? Infinity];
  return [...dialect.entries.values()].map(({ defaultTimeoutMs }) => defaultTimeoutMs);
};

type Gates = Settings['openclawHookGates'];

const gateCloses = (before: Gates, after: Gates): boolean =>
  [...new Set([...Object.keys(before), ...Object.keys(after)])].some((id) => {
    const [was, is] = [gatesOf(before, id), gatesOf(after, id)];
    return (was.conversation && !is.conversation) || (was.prompt && !is.prompt);
  });

/** Conversation hooks are closed until opened, prompt injection is open until closed (openclaw.md, gates). */
const gatesOf = (gates: Gates, id: string): { readonly conversation: boolean; readonly prompt: boolean } => {
  const own = Object.hasOwn(gates, id) ? gates[id] : undefined;
  return { conversation: own?.allowConversationAccess === true, prompt: own?.allowPromptInjection !== false };
};

type Hosts = Pick<Settings, 'fetchHosts' | 'pluginFetchHosts'>;

/** Of each plugin that has a list of its own, before or afterwards, and of all others. */
const reachesFurther = (before: Hosts, after: Hosts): boolean => {
  const own = [...new Set([...Object.keys(before.pluginFetchHosts), ...Object.keys(after.pluginFetchHosts)])];
  const listed = ({ fetchHosts, pluginFetchHosts }: Hosts, id: string): readonly string[] =>
    Object.hasOwn(pluginFetchHosts, id) ? (pluginFetchHosts[id] ?? []) : fetchHosts;
  const pairs = [[before.fetchHosts, after.fetchHosts], ...own.map((id) => [listed(before, id), listed(after, id)])];
  return pairs.some(([was = [], is = []]) => is.some((host) => !reaches(was, host)));
};

const reaches = (hosts: readonly string[], wanted: string): boolean => {
  const host = wanted.toLowerCase();
  return hosts.some((rule) => {
    const known = rule.toLowerCase();
    return known === host || (known.startsWith('*.') && host.endsWith(known.slice(1)));
  });
};

type Policy = Settings['installPolicy'];

const letsMoreIn = (before: Policy, after: Policy): boolean => {
  if (before === null) return false;
  const { allow, deny = [], requireDigest = false } = before;
  const lost = (rules: readonly string[], kept: readonly string[]): boolean =>
    rules.some((rule) => !kept.includes(rule));
  return (
    (requireDigest && after?.requireDigest !== true) ||
    lost(deny, after?.deny ?? []) ||
    (allow !== undefined && (after?.allow === undefined || lost(after.allow, allow)))
  );
};

type Breaker = Settings['circuitBreaker'];

const tripsSooner = (before: Breaker, after: Breaker): boolean => {
  if (after === 'off') return false;
  return before === 'off' || after.failures < before.failures || after.windowSeconds > before.windowSeconds;
};
