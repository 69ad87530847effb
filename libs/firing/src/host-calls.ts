import type { CallAnswer } from '#sandbox';
import type { Json } from '#record';

/** What a call is about: what a runtime may serve and another may not. */
export interface HostCallScope {
  readonly sessionId: string | null;
  readonly agentId: string | null;
  readonly sshHostId: string | null;
}

/** A granted call with an effect or an answer outside the realm, recorded as called before it is handed on. */
export interface HostCallRequest {
  readonly account: string;
  readonly invocationId: string;
  readonly pluginId: string;
  readonly callId: string;
  /** Dotted member: `fetch`, `ssh.command`, `session.peer.send` … */
  readonly member: string;
  readonly args: readonly Json[];
  /** Token that the operation this call leads to must carry. */
  readonly cause: string;
  readonly scope: HostCallScope;
  /** The event that everything here descends from. */
  readonly root: string;
  /** The key of the runtime that fired the hook; null where no key did. */
  readonly firedBy: string | null;
  /** Ends when the handler run was closed: the answer is not wanted any more. */
  readonly signal: AbortSignal;
}

/**
 * What came of a call. `refused`: it was not made, for certain. `unknown`: it was handed on, and nobody will know
 * whether it had its effect. To the plugin all but `value` are the same: it rejects with the message and the code.
 */
export type HostAnswer =
  | CallAnswer
  | { readonly kind: 'refused'; readonly code: string; readonly message: string }
  | { readonly kind: 'unknown'; readonly code: string; readonly message: string };

/**
 * Where granted host members are served: a connected runtime, the platform itself, or a script in the conformance
 * runner. Never rejects; `refused` with code `no_runtime` when nobody is there to serve it.
 */
export interface HostCalls {
  /** Whether anybody would serve this member now. What nobody serves is refused without an effect. */
  serves(account: string, member: string, scope: HostCallScope): boolean;
  call(request: HostCallRequest): Promise<HostAnswer>;
}

/** No runtime is connected: every member that needs one rejects (api.md, host calls). */
export const nobodyServes: HostCalls = {
  serves: () => false,
  call: () =>
    Promise.resolve({ kind: 'refused', code: 'no_runtime', message: 'no runtime is connected to serve this call' }),
};
