import { setTimeout as wait } from 'node:timers/promises';
import type { ScriptedHost } from '#dialects';
import type { HostCallRequest, HostCalls } from '#firing';
import type { Json } from '#record';
import type { CallAnswer } from '#sandbox';

/** A message that a plugin sent with `host.session.peer.send`, with the token that ties it to its sender. */
export interface SentMessage {
  readonly target: string;
  readonly text: string;
  readonly cause: string;
}

/** Serves every host member as a case scripts it; messages that plugins send are handed on. */
export const scriptedHost = (script: ScriptedHost, send: (message: SentMessage) => void): HostCalls => ({
  serves: () => true,
  call: (request) => answer(script, send, request),
});

const answer = async (
  script: ScriptedHost,
  send: (message: SentMessage) => void,
  { member, args, cause, signal }: HostCallRequest,
): Promise<CallAnswer> => {
  const [first, second] = args;
  switch (member) {
    case 'session.conversation.read':
      return value({ messages: script.transcript });
    case 'session.peer.send':
      send({ target: first as string, text: second as string, cause });
      return value({ accepted: true });
    case 'agents.list':
      return value({ agents: script.agents });
    case 'fetch':
      return fetched(script, first as string, signal);
    case 'llm':
      return value(script.llm);
    case 'decide':
      return value(script.decide);
    case 'ssh.command':
      return ran(script, first as string, signal);
    default:
      return error(`no script for host.${member}`);
  }
};

const fetched = async (script: ScriptedHost, url: string, signal: AbortSignal): Promise<CallAnswer> => {
  const found = Object.hasOwn(script.fetch, url) ? script.fetch[url] : undefined;
  if (found === undefined) return error(`no script for ${url}`);
  await passes(found.hang === true ? Infinity : (found.takesMs ?? 0), signal);
  return value({ status: found.status ?? 200, body: found.body ?? '' });
};

const ran = async (script: ScriptedHost, command: string, signal: AbortSignal): Promise<CallAnswer> => {
  const found = script.ssh.find(({ match }) => command.includes(match));
  await passes(found?.takesMs ?? 0, signal);
  if (found?.unreachable === true) return error('unreachable');
  return value({
    exitCode: found?.exitCode ?? 0,
    output: found?.output ?? '',
    errorOutput: found?.errorOutput ?? '',
    isTruncated: false,
    durationMs: found?.takesMs ?? 0,
  });
};

/** Resolves after that time, or when nobody waits any more. */
const passes = async (ms: number, signal: AbortSignal): Promise<void> => {
  if (ms === 0 || signal.aborted) return;
  // Longer than one timer can hold is as good as for ever.
  await wait(Math.min(ms, 2147483647), undefined, { signal }).catch(() => undefined);
};

const value = (json: Json): CallAnswer => ({ kind: 'value', json: JSON.stringify(json) });

const error = (message: string): CallAnswer => ({ kind: 'error', message });
