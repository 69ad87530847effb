import { count, digest, flag, id, list, nullable, object, oneOf, position, sealed, text, time } from './parts.js';

const slot = {
  runId: id('The same for the same job and slot, always.'),
  jobId: id(),
  slotAt: time('When the run was due.'),
};

const mission = { kind: id(), name: sealed(), prompt: sealed('As it was scheduled.') };

const injection = {
  injectionId: id(),
  pluginId: id(),
  keyDigest: nullable(digest('HMAC of the idempotency key, under a key of the account.')),
  placement: oneOf('prepend_context', 'append_context'),
  ttlMs: nullable({ type: 'number', minimum: 0 }),
  createdAt: time(),
  content: sealed('Text, idempotency key and metadata.'),
};

/**
 * Streams `session/{id}/injections`, `session/{id}/extensions`, `session/{id}/clear/…` of one clear, `cron/{jobId}` with a job's declarations and the runs
 * that it started one after another, and `cron-run/{runId}` of one slot and its run.
 */
export const sessionSchemas = {
  'session.clear_started': object({
    clearId: id(),
    trailingText: nullable(sealed('What the user typed after the command.')),
    messageCount: count('Messages that will be deleted.'),
    subagentCount: count('Direct subagents.'),
    peerThreadCount: count('Direct peer threads.'),
  }),
  'session.cleared': object({
    clearId: id(),
    deletedMessageCount: count('Messages of the session itself.'),
    deletedSubagentCount: count('Direct subagents.'),
    deletedPeerThreadCount: count('Direct peer threads.'),
  }),
  'injection.enqueued': object(injection),
  'injection.drained': object({
    injections: list(object(injection), 'In the order of the turn. The queue is empty afterwards.'),
    by: oneOf('firing', 'runtime'),
    'run?': id('Names the run: it gets the same again.'),
    'firedBy?': id('The invocation that they went to.'),
  }),
  'injection.expired': object({ injectionIds: list(id()) }),
  'injection.dropped': object({
    injectionIds: list(id()),
    cause: oneOf('not_loaded', 'not_allowed', 'erased', 'reset', 'delete', 'disable'),
  }),
  'extension.patched': object({
    pluginId: id(),
    namespace: id(),
    value: nullable(sealed('What the session keeps for the plugin; null: nothing any more.')),
  }),
  'extension.cleaned': object({
    cause: oneOf('reset', 'delete', 'disable', 'restart'),
    removed: list(object({ pluginId: id(), namespaces: list(id()) })),
    calls: list(id(), 'Plugins whose cleanup is called next.'),
    'asOf?': position('Account position at which their code was in force.'),
    'causedBy?': id('The event that it follows from.'),
  }),
  'extension.cleanup_called': object({
    cause: oneOf('reset', 'delete', 'disable', 'restart'),
    order: id('The `extension.cleaned` that it belongs to.'),
    calls: list(
      object({
        pluginId: id(),
        kind: oneOf('extension', 'lifecycle'),
        name: id('Namespace, or id of the lifecycle.'),
        outcome: oneOf('done', 'failed', 'timed_out', 'not_loaded'),
        error: nullable(sealed()),
        durationMs: count(),
      }),
    ),
  }),
  'cron.job_declared': object({
    jobId: id(),
    name: sealed(),
    kind: id(),
    schedule: nullable(text('A cron pattern; null: no slots are expected.')),
    timeZone: text('IANA name.'),
    graceSeconds: count('How late a slot may come before it counts as missed.'),
  }),
  'cron.slot_overlapped': object({ ...slot, ...mission, openRun: id('The run that was still open.') }),
  'cron.slot_missed': object({ ...slot, schedule: text('The pattern in force.'), timeZone: text() }),
  'cron.run_started': object({
    ...slot,
    ...mission,
    finalPrompt: sealed('As the handlers left it.'),
    firedBy: id('The invocation of `cronJobFiring`.'),
  }),
  'cron.run_leased': object({
    ...slot,
    leaseUntil: time('The run is lost when nothing is heard of it until then.'),
    leaseSeconds: count(),
    by: oneOf('start', 'heartbeat', 'session'),
    firedBy: id('The invocation of `cronJobFiring`.'),
  }),
  'cron.run_cancelled': object({
    ...slot,
    ...mission,
    reason: nullable(sealed('As the plugin gave it.')),
    firedBy: id('The invocation that cancelled it.'),
  }),
  'cron.run_closed': object({
    ...slot,
    status: id(),
    firedBy: id('The invocation of `cronJobCompleted`, opened in the same commit.'),
  }),
  'cron.run_notified': object({
    ...slot,
    firedBy: id('The invocation of `cronJobCompleted`.'),
    handlers: count('Handlers that ran.'),
    undecided: count('Those among them that failed.'),
  }),
  'cron.run_lost': object({ ...slot, leaseUntil: time('When the lease ended.') }),
} as const;

const decision = oneOf('allow-once', 'allow-always', 'deny');

const approvalDigest = digest('HMAC of the parameters’ canonical JSON, under a key of the account.');

/** Streams `approval/{id}` and `grant/{id}`. */
export const approvalSchemas = {
  'approval.requested': object({
    approvalId: id(),
    title: sealed(),
    description: sealed(),
    'detail?': sealed('For reviewers only.'),
    'scope?': sealed('What it is about, for display alone: an object.'),
    parameters: sealed('The final parameters, to which the decision is bound.'),
    parametersDigest: approvalDigest,
    severity: oneOf('info', 'warning', 'critical'),
    allowedDecisions: list(decision),
    timeoutMs: count(),
    timeoutBehavior: oneOf('allow', 'deny'),
    'timeoutReason?': sealed(),
    expiresAt: time(),
    toolName: nullable(id()),
    byPolicy: flag('A trusted policy asked: the ordinary handlers run once it is allowed.'),
    grantable: flag('Whether `allow-always` is remembered.'),
    'ticket?': id('Names who is told in the plugin’s realm.'),
    'instance?': id('The server process that has that realm.'),
    'renews?': id('The approval whose parameters were changed after it was given.'),
  }),
  'approval.decided': object({
    approvalId: id(),
    decision,
    reason: nullable(sealed()),
    parametersDigest: approvalDigest,
    'grantId?': id('The grant that decided.'),
  }),
  'approval.timed_out': object({ approvalId: id(), behavior: oneOf('allow', 'deny') }),
  'approval.cancelled': object({
    approvalId: id(),
    cause: oneOf('aborted', 'report', 'deny', 'unavailable', 'rejected', 'erased'),
    'reason?': sealed(),
  }),
  'approval.digest_mismatch': object({ approvalId: id(), expected: approvalDigest, actual: approvalDigest }),
  'approval.resolution_delivered': object({ approvalId: id(), decision: id() }),
  'approval.resolution_undeliverable': object({ approvalId: id(), decision: id(), cause: id() }),
  'approval.grant_created': object({
    grantId: id(),
    approvalId: id(),
    scope: object({ pluginId: id(), toolName: nullable(id()), parametersDigest: approvalDigest }),
    'expiresAt?': nullable(time()),
  }),
  'approval.grant_used': object({ grantId: id(), invocationId: id() }),
  'approval.grant_revoked': object({ grantId: id(), reason: nullable(sealed()) }),
} as const;
