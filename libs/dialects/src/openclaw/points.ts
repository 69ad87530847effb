import type { Mode, Point } from '#hooks';
import type { OpenClawHook } from './catalogue.js';
import { mergeOf, policyMerge } from './merges.js';
import type { Merge } from './merges.js';
import type { FailurePolicy, Profile } from './profiles.js';

/** The point of a hook as the engine runs it. */
export const pointOf = (hook: OpenClawHook, profile: Profile, policy: FailurePolicy): Point => ({
  mode: modeOf(hook, profile),
  cancellable: isCancellable(hook),
  failsClosed: hook.failsClosed && (policy === 'host' || hook.name === 'before_agent_run'),
  rewritable: hook.mode !== 'observe',
});

/** Trusted tool policies run before the handlers of `before_tool_call`, and each fails closed (openclaw.md §7). */
export const policyPoint: Point = {
  mode: mergeMode(policyMerge),
  cancellable: true,
  failsClosed: true,
  rewritable: true,
};

/** Whether a handler can stop the operation. */
export const isCancellable = ({ result }: Pick<OpenClawHook, 'result'>): boolean =>
  result.includes('block') || result.includes('cancel') || result.includes('outcome');

const modeOf = (hook: OpenClawHook, profile: Profile): Mode => {
  switch (hook.mode) {
    case 'modifying':
      return mergeMode(mergeOf(hook.name, profile));
    case 'observe':
      return { kind: 'observe', start: 'together' };
    case 'claim':
      return { kind: 'first-claim' };
    case 'sync':
      return { kind: 'waterfall' };
    case 'evaluate':
      return { kind: 'evaluate' };
  }
};

function mergeMode(merge: Merge): Mode {
  return {
    kind: 'merge',
    others: null,
    chained: null,
    terminal: null,
    cancels: null,
    holds: null,
    controls: [],
    ...merge,
  };
}
