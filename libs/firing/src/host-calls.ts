import type { CallAnswer } from '#sandbox';
import type { Json } from '#record';

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
  readonly scope: {
    readonly sessionId: string | null;
    readonly agentId: string | null;
    readonly sshHostId: string | null;
  };
  /** Ends when the handler run was closed: the answer is not wanted any more. */
  readonly signal: AbortSignal;
}

/**
 * Where granted host members are served: a connected runtime, the platform itself, or a script in the conformance
 * runner. Never rejects; `error` with code `no_runtime` when nobody is there to serve it.
 */
export interface HostCalls {
  /** Whether anybody would serve this member now. What nobody serves is refused without an effect. */
  serves(account: string, member: string): boolean;
  call(request: HostCallRequest): Promise<CallAnswer>;
}

/** No runtime is connected: every member that needs one rejects (api.md, host calls). */
export const nobodyServes: HostCalls = {
  serves: () => false,
  call: () =>
    Promise.resolve({ kind: 'error', code: 'no_runtime', message: 'no runtime is connected to serve this call' }),
};
