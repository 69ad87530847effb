import { anyObject, count, id, list, nullable, object, oneOf, sealed, text, time } from './parts.js';

/** Streams `session/{id}` and `cron/{jobId}`. */
export const sessionSchemas = {
  'session.clear_started': object({ clearId: id() }),
  'session.cleared': object({
    clearId: id(),
    deletedMessageCount: count('Messages of the session itself.'),
    deletedSubagentCount: count('Direct subagents.'),
    deletedPeerThreadCount: count(),
  }),
  'injection.enqueued': object({
    injectionId: id(),
    content: sealed(),
    'position?': id(),
    'expiresAt?': nullable(time()),
  }),
  'injection.drained': object({ injectionIds: list(id()), 'invocationId?': id() }),
  'injection.expired': object({ injectionIds: list(id()) }),
  'extension.patched': object({ pluginId: id(), namespace: id(), value: sealed() }),
  'extension.cleaned': object({ pluginId: id(), 'namespace?': id(), 'cause?': id() }),
  'cron.job_declared': object({
    name: sealed(),
    kind: id(),
    agentId: nullable(id()),
    schedule: text(),
    timeZone: text('IANA name.'),
  }),
  'cron.slot_overlapped': object({ runId: id(), slotAt: id(), openRun: id('The run that was still open.') }),
  'cron.slot_missed': object({ slotAt: id() }),
  'cron.run_started': object({ runId: id(), slotAt: id(), firedBy: id('The invocation of `cronJobFiring`.') }),
  'cron.run_cancelled': object({ runId: id(), slotAt: id(), firedBy: id('The invocation that cancelled it.') }),
  'cron.run_closed': object({ runId: id(), status: id() }),
  'cron.run_notified': object({ runId: id(), firedBy: id('The invocation of `cronJobCompleted`.') }),
  'cron.run_lost': object({ runId: id(), leaseUntil: time() }),
} as const;

const decision = oneOf('allow-once', 'allow-always', 'deny');

/** Streams `approval/{id}` and `grant/{id}`. */
export const approvalSchemas = {
  'approval.requested': object({
    approvalId: id(),
    title: sealed(),
    description: sealed(),
    parameters: sealed('The final parameters, to which the decision is bound.'),
    parametersDigest: id(),
    severity: id(),
    timeoutMs: count(),
    timeoutBehavior: oneOf('allow', 'deny'),
    expiresAt: time(),
  }),
  'approval.decided': object({ approvalId: id(), decision, reason: nullable(sealed()), parametersDigest: id() }),
  'approval.timed_out': object({ approvalId: id(), behavior: oneOf('allow', 'deny') }),
  'approval.cancelled': object({ approvalId: id(), cause: id() }),
  'approval.digest_mismatch': object({ approvalId: id(), expected: id(), actual: id() }),
  'approval.resolution_delivered': object({ approvalId: id(), decision: id() }),
  'approval.resolution_undeliverable': object({ approvalId: id(), decision: id(), cause: id() }),
  'approval.grant_created': object({
    grantId: id(),
    approvalId: id(),
    scope: anyObject(),
    'expiresAt?': nullable(time()),
  }),
  'approval.grant_used': object({ grantId: id(), invocationId: id() }),
  'approval.grant_revoked': object({ grantId: id(), reason: nullable(sealed()) }),
} as const;
