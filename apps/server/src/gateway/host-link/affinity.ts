import type { HostCallScope } from '#firing';
import type { Serves } from './frames.js';

/** A connected runtime, on this replica or another. */
export interface KnownRuntime {
  readonly connectionId: string;
  readonly account: string;
  readonly runtimeId: string;
  /** The key that it is connected with. */
  readonly keyId: string;
  readonly serves: Serves;
}

/** What somebody is looked for to do. */
export interface Wanted {
  readonly member: string;
  readonly scope: HostCallScope;
  /** The key that fired the hook. */
  readonly firedBy: string | null;
}

/**
 * How well a runtime fits a call; null: it does not serve it. One that named the server, session or agent goes before
 * one that serves any, and among equals the one that fired the hook.
 */
export const fit = ({ serves, keyId }: Pick<KnownRuntime, 'serves' | 'keyId'>, wanted: Wanted): number | null => {
  const { member, scope, firedBy } = wanted;
  if (serves.members?.some((name) => member === name || member.startsWith(`${name}.`)) === false) return null;
  const ssh = within(serves.sshHostIds, scope.sshHostId, 8);
  const session = within(serves.sessionIds, scope.sessionId, 4);
  const agent = within(serves.agentIds, scope.agentId, 2);
  if (ssh === null || session === null || agent === null) return null;
  return ssh + session + agent + (keyId === firedBy ? 1 : 0);
};

/** A list says nothing of a call that is about none of its kind. */
const within = (listed: readonly string[] | null, id: string | null, weight: number): number | null => {
  if (listed === null || id === null) return 0;
  return listed.includes(id) ? weight : null;
};

/** Those that serve a call, best first; what stands earlier stays earlier among equals. */
export const fitting = <R extends Pick<KnownRuntime, 'serves' | 'keyId'>>(
  runtimes: Iterable<R>,
  wanted: Wanted,
): readonly R[] =>
  [...runtimes]
    .flatMap((runtime) => {
      const points = fit(runtime, wanted);
      return points === null ? [] : [{ runtime, points }];
    })
    .sort((one, other) => other.points - one.points)
    .map(({ runtime }) => runtime);
