import type { Dialect, HookEntry } from '../dialect.js';
import { catalogue, limits } from './catalogue.js';
import type { MiddlewareHook } from './catalogue.js';
import { guestProgram } from './guest-program.js';
import { readLoadReport } from './load-report.js';
import { grants } from './host-calls.js';
import { hostViewOf, openContext } from './open.js';
import { readResult, warningsIn } from './read.js';

const entryOf = (hook: MiddlewareHook): HookEntry => ({
  name: hook.name,
  group: hook.group,
  point: {
    mode: { kind: 'waterfall' },
    cancellable: hook.vetoable,
    failsClosed: false,
    rewritable: hook.mutable.length > 0,
  },
  cancellable: hook.vetoable,
  mutableFields: hook.mutable,
  defaultTimeoutMs: limits.handlerMs,
  failsClosed: false,
  startsTurn: hook.startsTurn,
  ...(hook.oncePerTurn === null ? {} : { oncePerTurn: hook.oncePerTurn }),
});

const hookOf = (name: string): MiddlewareHook => {
  const hook = catalogue.get(name);
  if (hook === undefined) throw new Error(`the middleware dialect has no hook ${name}`);
  return hook;
};

/** The middleware dialect, profile mw-1. Its hooks are known by `entries`; asking about another one throws. */
export const middleware: Dialect = {
  name: 'middleware',
  ownFields: ['context'],
  entries: new Map([...catalogue].map(([name, hook]) => [name, entryOf(hook)])),
  guest: guestProgram,
  timeoutBounds: { min: 1, max: limits.handlerMs },
  pausingMembers: ['ssh.command'],
  pauseCeilingMs: limits.ssh.callsPerRun * limits.ssh.maxSeconds * 1000,
  open: (hook, body) => openContext(hookOf(hook), body),
  hostView: (hook, input, hop) => hostViewOf(hookOf(hook), input, hop),
  grants,
  setup: ({ permissions, config }) => JSON.stringify({ permissions, config }),
  args: (_hook, view) =>
    JSON.stringify({
      session: view.session.state === 'granted' ? view.session.id : null,
      workspace: view.workspaceAgentId,
      ssh: view.sshHostId !== null,
    }),
  read: (hook, raw, value) => readResult(hookOf(hook), raw, value),
  readNotes: (_hook, notes) => warningsIn(notes),
  readReport: readLoadReport,
  stopTags: (hook, failureMode) => {
    if (!hookOf(hook).vetoable) return [];
    return failureMode === 'closed' ? ['!', '?', 'failed'] : ['!'];
  },
  failure: (cause, detail) =>
    cause === 'timed_out' ? { code: 'handler_timeout', detail } : { code: 'handler_crashed', detail },
};
