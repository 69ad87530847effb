import { count, digest, flag, id, list, nullable, object, oneOf, sealed, sealedOrNull, warnings } from './parts.js';

const hostSession = oneOf('granted', 'withheld', 'absent');
const mode = oneOf('enforce', 'observe');
const failureMode = oneOf('open', 'closed');
const index = count('Place in the chain, from 0.');

const chainEntry = object({
  pluginId: id(),
  version: id(),
  revision: count(),
  mode,
  failureMode,
  priority: nullable({ type: 'number' }),
  configDigest: digest(),
});

const opened = object({
  chain: list(chainEntry, 'The chain in force for this hook, in the order it runs.'),
  withoutHook: count('Enabled plugins that have no handler for this hook.'),
  context: sealed('The hook’s own arguments as they came.'),
  hostSession,
  'previousInvocationId?': id('The lost attempt that this one repeats.'),
  'target?': sealed('A target that is a person’s address; the event’s `target` is then its HMAC.'),
  'chainOf?': id('The invocation whose chain was used.'),
  'lineage?': id('Earlier invocation that this one descends from through a model turn.'),
  'dataSubject?': object({ hmac: digest(), sealed: sealed() }),
  'turnPrompted?': flag('With an inferred turn: whether it has had its system prompt, this firing included.'),
  'firedFor?': id('Stream of the clear or the cron run that this hook was fired for.'),
  'halted?': failureMode,
  'observed?': object({
    kind: oneOf('session', 'subagent', 'cron', 'gateway'),
    facts: { type: 'object', additionalProperties: { type: ['string', 'number', 'boolean'] } },
    content: sealedOrNull,
  }),
  'instance?': id('The server process that ran it, where the opening was written before the end.'),
});

const ran = (more: Parameters<typeof object>[0] = {}): ReturnType<typeof object> =>
  object({
    index,
    input: sealedOrNull,
    output: sealedOrNull,
    changed: list(id()),
    budgetMs: count(),
    durationUs: count('Run time, microseconds.'),
    warnings,
    configDigest: digest(),
    mode,
    'wouldHave?': id('Mode `observe`: what the verdict would have been.'),
    'wouldHaveOutput?': sealedOrNull,
    'logLinesDropped?': count('Lines of `host.log` over the limit of one run.'),
    'cause?': oneOf('threw', 'timed_out', 'malformed', 'crashed', 'not_loaded'),
    'reason?': sealedOrNull,
    ...more,
  });

const hostCall = {
  'index?': count('Place in the chain, from 0, of the handler that asks; said where its plugin has several.'),
  callId: id(),
  member: id(),
  'args?': sealed(),
};

const closed = object({
  value: sealedOrNull,
  cancellation: nullable(object({ pluginId: nullable(id()), reason: sealedOrNull, code: nullable(id()) })),
  hostSession,
  metered: count('Handler runs that are metered.'),
  'more?': sealed('What the dialect adds to the answer: an object of its fields.'),
});

const lost = object({
  metered: count('Handler runs that are metered: those that ended, and those that had started.'),
  'handlerIndex?': count('Place in the chain of the first handler that had started and did not end.'),
  'cause?': oneOf('instance_gone', 'given_up'),
  'instance?': nullable(id('The server process that ran it.')),
  'handlers?': list(
    object({ index, pluginId: id(), state: oneOf('ended', 'lost', 'unknown') }),
    'The chain: what ended, what had started, and what nothing is on record of.',
  ),
  'hostCalls?': list(
    object({
      callId: id(),
      member: id(),
      pluginId: nullable(id()),
      state: oneOf('done', 'failed', 'refused', 'unknown'),
    }),
    'Host calls that were asked, and how far they got.',
  ),
});

/** Stream `invocation/{id}`. */
export const invocationSchemas = {
  'invocation.opened': opened,
  'session.withheld': object({}),
  'handler.started': object({
    index,
    'instance?': id('The server process that runs it, where it is not the one that opened the invocation.'),
  }),
  'host.called': object(hostCall),
  'host.answered': object({
    'index?': hostCall['index?'],
    callId: id(),
    member: id(),
    ok: flag(),
    'unknown?': flag('There is no answer and there will be none: it may have had its effect.'),
    'code?': id('Why it failed, or why nothing is known, as a code.'),
    'result?': sealed(),
  }),
  'host.refused': object({ ...hostCall, code: id('Why, as a code.') }),
  'handler.passed': ran(),
  'handler.rewrote': ran(),
  'handler.cancelled': ran({ reason: sealedOrNull }),
  'handler.observed': ran(),
  'handler.claimed': ran(),
  'handler.held': ran(),
  'handler.skipped': ran({
    cause: oneOf('threw', 'timed_out', 'malformed', 'crashed', 'not_loaded'),
    'traceback?': sealed('Where an exception came from that was swallowed, where the dialect keeps that.'),
  }),
  'handler.not_run': object({ index, cause: oneOf('not_loaded', 'not_applicable', 'after_cancel'), warnings }),
  'invocation.held': object({
    approvalId: id('The approval that the chain waits for.'),
    state: sealed('What the chain came to so far, to go on from.'),
  }),
  'invocation.closed': closed,
  'invocation.lost': lost,
  'invocation.missed': object({
    decision: oneOf('open', 'closed'),
    attempts: count('How often the runtime tried.'),
    context: sealed('The hook’s own arguments as they would have come.'),
    'firingKey?': digest(),
    'arrivedAs?': id('The invocation, where one of the attempts had come through all the same.'),
    'dataSubject?': object({ hmac: digest(), sealed: sealed() }),
    'target?': sealed('A target that is a person’s address; the event’s `target` is then its HMAC.'),
  }),
  'effect.reported': object({
    applied: flag(),
    'digest?': sealed('The runtime’s digest of what it applied, as sent.'),
    matches: nullable(flag('Whether that digest is the answer’s.')),
  }),
} as const;
