import type { JsonObject } from '#record';
import type { Arranged, ArrangeOrder } from '../dialect.js';
import { effectiveName, isAuthority, isEligible, judgeHook, matches, ownTimeout, priorityOf } from './registration.js';
import type { HookGates } from './registration.js';
import { registrationsIn } from './load-report.js';
import type { Profile } from './profiles.js';
import { claimTarget } from './results.js';

/**
 * The handlers of a hook in the order they run: trusted policies in load order, then by descending priority, ties in the
 * order of registration (openclaw.md §1, §7). Registrations that a gate refuses are not there; those that this event is
 * not for are there and do not apply.
 */
export const arrange = (order: ArrangeOrder, profile: Profile): readonly Arranged[] => {
  const policies =
    order.hook === 'before_tool_call'
      ? order.plugins.flatMap((plugin, place) => policiesOf(order, plugin, place, profile))
      : [];
  const handlers = order.plugins.flatMap((plugin, place) => handlersOf(order, plugin, place, profile));
  return [...policies, ...handlers.sort((left, right) => (right.priority ?? 0) - (left.priority ?? 0))];
};

type Placed = ArrangeOrder['plugins'][number];

/** Bundled policies would stand first; what is installed over REST is never bundled. */
const policiesOf = (
  { input }: ArrangeOrder,
  plugin: Placed,
  place: number,
  { version }: Profile,
): readonly Arranged[] =>
  registrationsIn(plugin.registrations).policies.map(({ handler, matcher }) => ({
    plugin: place,
    handler,
    isPolicy: true,
    priority: null,
    timeoutMs: null,
    hasNoLimit: true,
    applies: input === null || version === '2026.7' || matches(matcher, (input.event as JsonObject).toolName),
  }));

const handlersOf = (order: ArrangeOrder, plugin: Placed, place: number, profile: Profile): readonly Arranged[] => {
  const rules = { profile, gates: plugin.gates as HookGates, origin: 'installed' } as const;
  const target = order.hook === 'inbound_claim' && order.input !== null ? claimTarget(order.input) : null;
  if (target !== null && target !== plugin.id) return [];
  return registrationsIn(plugin.registrations).handlers.flatMap((claim) => {
    if (effectiveName(claim.hook) !== order.hook) return [];
    const judged = judgeHook(claim.hook, rules);
    if (judged.kind !== 'registered') return [];
    const { event, context } = order.input ?? {};
    const readAs = readAsOf(judged.constrained, order.hook, context as JsonObject | undefined, profile);
    const { registrationId } = claim;
    return [
      {
        plugin: place,
        handler: claim.id,
        isPolicy: false,
        priority: priorityOf(claim),
        timeoutMs: ownTimeout(claim.timeoutMs, profile),
        hasNoLimit: false,
        applies:
          order.input === null || isEligible(claim, order.hook, profile, event as JsonObject, context as JsonObject),
        ...(readAs === null ? {} : { readAs }),
        ...(typeof registrationId === 'string' && registrationId !== '' ? { evaluatorId: registrationId } : {}),
      },
    ];
  });
};

const readAsOf = (
  constrained: boolean,
  hook: string,
  context: JsonObject | undefined,
  { version }: Profile,
): string | null => {
  if (constrained) return 'without-prompts';
  const isAuthorized = version === '2026.9' && hook === 'before_prompt_build' && isAuthority(context?.toolAuthority);
  return isAuthorized ? 'context-only' : null;
};
