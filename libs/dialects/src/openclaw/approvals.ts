import type { ApprovalDecision, Json, JsonObject } from '#record';
import type { ApprovalEnd, ApprovalResolution, ApprovalTerms, ReadApproval } from '../held-call.js';
import type { Version } from './catalogue.js';

export const approvalLimits = {
  titleUnits: 80,
  descriptionUnits: 512,
  detailUnits: 16_384,
  defaultTimeoutMs: 120_000,
  maxTimeoutMs: 600_000,
} as const;

const decisions: readonly ApprovalDecision[] = ['allow-once', 'allow-always', 'deny'];

/** Reads a `requireApproval` as it came out of a merge: `pluginId` stamped, `onResolution` a ticket. */
export const readApproval = (request: Json, version: Version): ReadApproval => {
  const fields = isObject(request) ? request : {};
  const pluginId = text(fields.pluginId) ?? '';
  const ticket = text(fields.onResolution);
  const [title, description] = [text(fields.title)?.trim() ?? '', text(fields.description)?.trim() ?? ''];
  const fault =
    sizeFault('title', title, approvalLimits.titleUnits) ??
    sizeFault('description', description, approvalLimits.descriptionUnits);
  if (fault !== null) return { kind: 'unusable', reason: fault, terms: { pluginId, ticket } };
  return {
    kind: 'approval',
    terms: {
      pluginId,
      title,
      description,
      detail:
        version === '2026.9'
          ? nonEmpty(text(fields.detail)?.trim().slice(0, approvalLimits.detailUnits) ?? null)
          : null,
      scope: version === '2026.9' ? readScope(fields.scope) : null,
      severity: fields.severity === 'info' || fields.severity === 'critical' ? fields.severity : 'warning',
      timeoutMs: approvalTimeout(fields.timeoutMs),
      timeoutBehavior: version === '2026.7' && fields.timeoutBehavior === 'allow' ? 'allow' : 'deny',
      timeoutReason: nonEmpty(text(fields.timeoutReason)),
      allowedDecisions: allowed(fields.allowedDecisions),
      ticket,
    },
  };
};

const scopeKinds = ['message-send', 'payment', 'external-post'];

/** Most characters of a scope's texts, by its field; of any other. */
const scopeUnits: { readonly [field: string]: number } = { amount: 40, currency: 12 };
const otherScopeUnits = 128;
const mostRecipients = 5;

/** What an approval is about (openclaw.md §8): texts and lists of texts within their bounds; anything else is left out. */
const readScope = (scope: Json | undefined): JsonObject | null => {
  if (scope === undefined || !isObject(scope)) return null;
  if (![scope.kind, scope.type].some((kind) => typeof kind === 'string' && scopeKinds.includes(kind))) return null;
  const cut = (field: string, value: string): string => value.slice(0, scopeUnits[field] ?? otherScopeUnits);
  return Object.fromEntries(
    Object.entries(scope).flatMap(([field, value]): [string, Json][] => {
      if (typeof value === 'string') return [[field, cut(field, value)]];
      if (!Array.isArray(value)) return [];
      const texts = (value as readonly Json[]).filter((item) => typeof item === 'string').slice(0, mostRecipients);
      return [[field, texts.map((item) => cut(field, item))]];
    }),
  );
};

/** 120 s, unless a plugin says another time above 0; 600 s at most. */
const approvalTimeout = (ms: Json | undefined): number => {
  if (typeof ms !== 'number' || !Number.isFinite(ms) || ms <= 0) return approvalLimits.defaultTimeoutMs;
  return Math.min(Math.floor(ms), approvalLimits.maxTimeoutMs);
};

/** Duplicates and words that are none are left out; nothing left means all three. */
const allowed = (list: Json | undefined): readonly ApprovalDecision[] => {
  const named = Array.isArray(list) ? (list as readonly Json[]) : [];
  const known = [...new Set(named)].filter((word): word is ApprovalDecision =>
    decisions.includes(word as ApprovalDecision),
  );
  return known.length > 0 ? known : decisions;
};

/** Whether a decision may be given at all; one that may not leaves the approval open. */
export const permits = ({ allowedDecisions }: ApprovalTerms, decision: string): decision is ApprovalDecision =>
  (allowedDecisions as readonly string[]).includes(decision);

/** What the plugin is told of an end. */
export const resolutionOf = (end: ApprovalEnd): ApprovalResolution => {
  switch (end.kind) {
    case 'decided':
      return end.decision;
    case 'unanswered':
      return 'timeout';
    case 'aborted':
    case 'unavailable':
      return 'cancelled';
  }
};

const sizeFault = (name: string, value: string, most: number): string | null => {
  if (value === '') return `the ${name} is missing`;
  return value.length > most ? `the ${name} is longer than ${String(most)} characters` : null;
};

const text = (value: Json | undefined): string | null => (typeof value === 'string' ? value : null);

const nonEmpty = (words: string | null): string | null => (words === '' ? null : words);

const isObject = (value: Json): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
