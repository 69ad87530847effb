import { approvalStates } from '#audit';
import {
  content,
  instant,
  list,
  maybeInstant,
  maybeText,
  object,
  page,
  text,
  word,
  type Schema,
} from '../audit/schemas.js';

const flag: Schema = { type: 'boolean' };
const actor: Schema = { type: 'object', nullable: true, description: 'The key, and on whose behalf it acts.' };

const decisions = ['allow-once', 'allow-always', 'deny'] as const;

export const approvalSchema = object({
  id: text,
  state: word(...approvalStates),
  invocationId: maybeText,
  sessionId: maybeText,
  turnId: maybeText,
  agentId: maybeText,
  dialect: maybeText,
  hook: maybeText,
  pluginId: maybeText,
  toolName: maybeText,
  byPolicy: { ...flag, description: 'A trusted policy asked: the ordinary handlers run once it is allowed.' },
  title: content,
  description: content,
  detail: content,
  scope: { ...content, description: 'What it is about, for display alone: where a message goes, what is paid.' },
  severity: word('info', 'warning', 'critical'),
  parameters: content,
  parametersDigest: { ...text, description: 'What a decision is bound to: HMAC under a key of the account.' },
  allowedDecisions: list(word(...decisions)),
  grantable: { ...flag, description: 'Whether `allow-always` is remembered as a grant.' },
  requestedAt: instant,
  requestedBy: actor,
  expiresAt: instant,
  timeoutBehavior: word('allow', 'deny'),
  renews: { ...maybeText, description: 'The approval whose parameters were changed after it was given.' },
  endedAt: maybeInstant,
  decision: { ...word(...decisions), nullable: true },
  decidedBy: actor,
  reason: content,
  grantId: { ...maybeText, description: 'The grant that decided.' },
  cause: { ...maybeText, description: 'Why nobody decided.' },
  resolution: {
    type: 'object',
    nullable: true,
    description: 'What the plugin was told, and whether it could be.',
    properties: { decision: text, delivered: flag, cause: maybeText },
  },
});

export const approvalsSchema = page(approvalSchema);

export const grantSchema = object({
  id: text,
  inForce: flag,
  pluginId: text,
  toolName: maybeText,
  parametersDigest: text,
  approvalId: text,
  givenAt: instant,
  givenBy: actor,
  revokedAt: maybeInstant,
  revokedBy: actor,
  reason: content,
  uses: { type: 'integer', description: 'Calls that it let through.' },
});

export const grantsSchema = page(grantSchema);
