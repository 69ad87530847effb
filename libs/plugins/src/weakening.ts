import type { PluginSnapshot } from '#record';
import { canCancel, timeoutOf, type DialectFacts } from './dialect-facts.js';
import { arranged, inOrder, kohakuPriority, type PluginSet } from './plugin-set.js';

/**
 * Whether a change of one plugin weakens enforcement (auditor question 3). It does when, whatever else it does,
 * - the plugin stops running: it was enabled and is disabled or uninstalled;
 * - its verdicts stop counting: `mode` goes from `enforce` to `observe`;
 * - its failures stop blocking: `failureMode` goes from `closed` to `open`;
 * - it has less time at a hook it handled before, so that it is skipped sooner;
 * - it loses a permission, so that a guard that asks may no longer decide;
 * - it no longer handles a hook that it handled (new version, rollback);
 * - Kohaku: a plugin that can veto is moved later by its priority.
 * Settings count while a plugin is disabled too: else disabling, loosening and enabling would show one weakening of two.
 * What code or configuration *means* cannot be judged; the change itself is recorded with both states.
 */
export const weakens = (before: PluginSnapshot, after: PluginSnapshot | null, facts: DialectFacts): boolean => {
  if (after === null) return before.enabled;
  return (
    (before.enabled && !after.enabled) ||
    (before.mode === 'enforce' && after.mode === 'observe') ||
    (before.failureMode === 'closed' && after.failureMode === 'open') ||
    before.permissions.some((permission) => !after.permissions.includes(permission)) ||
    before.findings.hooks.some((hook) => losesHook(hook, before, after, facts)) ||
    movesLater(before, after, facts)
  );
};

const losesHook = (hook: string, before: PluginSnapshot, after: PluginSnapshot, facts: DialectFacts): boolean =>
  !after.findings.hooks.includes(hook) ||
  timeoutOf(after.timeouts, hook, facts) < timeoutOf(before.timeouts, hook, facts);

const movesLater = (before: PluginSnapshot, after: PluginSnapshot, facts: DialectFacts): boolean =>
  before.dialect === 'kohaku' &&
  canCancel(before.findings.hooks, facts) &&
  kohakuPriority(after) > kohakuPriority(before);

/**
 * Whether a new order weakens enforcement: an enforcing plugin that can veto comes to stand behind one that it stood
 * before at a hook that both handle, so that it now sees what the other made of the value.
 */
export const orderWeakens = (
  set: PluginSet,
  after: readonly string[],
  factsOf: (dialect: PluginSnapshot['dialect']) => DialectFacts,
): boolean => {
  const enabled = inOrder(set).filter((plugin) => plugin.enabled);
  const place = new Map(after.map((id, index) => [id, index]));
  const moved = [...enabled].sort((a, b) => (place.get(a.id) ?? 0) - (place.get(b.id) ?? 0));
  return [...new Set(enabled.map(({ dialect }) => dialect))].some((dialect) => {
    const of = (plugins: readonly PluginSnapshot[]) =>
      arranged(
        dialect,
        plugins.filter((plugin) => plugin.dialect === dialect),
      );
    return someGuardMovesBehind(of(enabled), of(moved), factsOf(dialect));
  });
};

const someGuardMovesBehind = (
  before: readonly PluginSnapshot[],
  after: readonly PluginSnapshot[],
  facts: DialectFacts,
): boolean =>
  before.some(
    (guard, index) =>
      guard.mode === 'enforce' &&
      before.slice(index + 1).some(
        (other) =>
          after.indexOf(other) < after.indexOf(guard) &&
          canCancel(
            guard.findings.hooks.filter((hook) => other.findings.hooks.includes(hook)),
            facts,
          ),
      ),
  );
