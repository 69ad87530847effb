import { randomUUID } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import {
  decideTold,
  evolveApproval,
  evolveGrant,
  grantIdOf,
  grantUsed,
  unknownApproval,
  unknownGrant,
} from '#approvals';
import { resolutionOf, type ApprovalTerms } from '#dialects';
import type { EventStore } from '#event-store';
import { deliverResolution, type ApprovalDesk, type ApprovalWish, type Asked } from '#firing';
import { EVENT_STORE, INSTANCE, LOGGER, SANDBOX, SEALING, type Logger } from '#platform';
import {
  approvalStream,
  asData,
  canonicalJson,
  grantStream,
  type ApprovalCancelled,
  type ApprovalDecided,
  type ApprovalRequested,
  type EventFields,
  type Json,
  type NewEvent,
} from '#record';
import type { Realm, Sandbox } from '#sandbox';
import type { Sealing } from '#sealing';
import { AccountRules } from '../control/accounts/account-rules.js';

/** A plugin's realm in this process that waits to be told what became of its wish. */
interface Waiting {
  readonly realm: Realm;
  readonly ticket: string;
}

/** The grant of a wish, in force now. */
interface GrantFound {
  readonly id: string;
  readonly inForce: boolean;
}

/**
 * Where chains ask for approvals. What is asked for is on record before anybody can answer it; only that a realm of this
 * process waits to be told is known here alone, and ends with it.
 */
@Injectable()
export class Approvals implements ApprovalDesk {
  private readonly waiting = new Map<string, Waiting>();

  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(SANDBOX) private readonly sandbox: Sandbox,
    @Inject(INSTANCE) private readonly instance: string,
    @Inject(LOGGER) private readonly logger: Logger,
    private readonly rules: AccountRules,
  ) {}

  digestOf(account: string, params: Json): Promise<string> {
    return this.sealing.searchHash(account, canonicalJson(params));
  }

  async ask(wish: ApprovalWish): Promise<Asked> {
    const approvalId = `plugin:${randomUUID()}`;
    const { read, mode, fields } = wish;
    // It fits nobody's eyes; what was asked for stands with the handler.
    if (read.kind === 'unusable') {
      return { approvalId: null, end: { kind: 'unavailable', reason: read.reason }, writes: [] };
    }
    const digest = await this.digestOf(wish.account, wish.params);
    const grant = await this.grantFor(wish, digest);
    const asked: NewEvent[] = [
      ...renewal(wish),
      {
        type: 'approval.requested',
        data: asData(this.requested(wish, read.terms, approvalId, digest, grant !== null)),
      },
    ];
    const done = (end: Asked['end'], ...events: readonly NewEvent[]): Asked => ({
      approvalId,
      end,
      writes: [write(approvalId, fields, wish, [...asked, ...events])],
    });
    if (mode === 'report' || mode === 'deny') return done({ kind: 'unasked', mode }, cancelled(approvalId, mode));
    if (mode === 'unavailable') {
      return done({ kind: 'unavailable', reason: 'Plugin approval unavailable' }, cancelled(approvalId, mode));
    }
    if (grant?.inForce !== true) return done(null);
    const decided: ApprovalDecided = {
      approvalId,
      decision: 'allow-always',
      reason: null,
      parametersDigest: digest,
      grantId: grant.id,
    };
    return done(
      { kind: 'decided', decision: 'allow-always' },
      { type: 'approval.decided', data: asData(decided) },
      grantUsed(grant.id, wish.invocationId),
    );
  }

  recorded({ account, read, realm }: ApprovalWish, { approvalId, end }: Asked): void {
    const { ticket } = read.terms;
    if (ticket === null || realm === null) return;
    if (approvalId !== null) this.waiting.set(keyOf(account, approvalId), { realm, ticket });
    if (end === null) return;
    const word = end.kind === 'unasked' ? (end.mode === 'deny' ? 'deny' : 'cancelled') : resolutionOf(end);
    const told =
      approvalId === null ? this.deliver(account, { realm, ticket }, word) : this.tell(account, approvalId, word);
    told.catch((error: unknown) => {
      this.logger.warn({ account, approvalId, error: String(error) }, 'a plugin could not be told of its approval');
    });
  }

  /**
   * Tells the plugin how its approval ended, and puts on record whether that was possible: once, whoever else tries.
   * `because`: its process is known to be gone.
   */
  async tell(account: string, approvalId: string, word: string, because: string | null = null): Promise<void> {
    const key = keyOf(account, approvalId);
    const waiting = this.waiting.get(key);
    this.waiting.delete(key);
    const delivery = waiting === undefined ? 'undeliverable' : await this.deliver(account, waiting, word);
    const cause =
      delivery === 'delivered' ? null : delivery === 'failed' ? 'handler_failed' : (because ?? 'realm_gone');
    const stream = approvalStream(approvalId);
    for (;;) {
      const events = (await this.store.readStream(account, stream)).map(({ event }) => event);
      const told = decideTold(events.reduce(evolveApproval, unknownApproval), word, cause);
      if (told.length === 0) return;
      const requested = events.find(({ type }) => type === 'approval.requested');
      const fields = requested === undefined ? {} : aboutApproval(requested);
      const expectedVersion = events.at(-1)?.streamVersion ?? 0;
      const writes = [{ stream, expectedVersion, events: told.map((event) => ({ ...fields, ...event })) }];
      if ((await this.store.append({ account, writes })).kind === 'appended') return;
    }
  }

  private deliver(account: string, { realm, ticket }: Waiting, decision: string): ReturnType<typeof deliverResolution> {
    return deliverResolution(this.sandbox, {
      account,
      realm,
      ticket,
      decision,
      // It is told, not asked: its run belongs to no invocation, and reaches nothing outside.
      onCall: (call) =>
        Promise.resolve(
          call.member === 'log'
            ? { kind: 'value', json: 'null' }
            : { kind: 'error', code: 'not_granted', message: `host.${call.member} is not granted here` },
        ),
    });
  }

  /** Null: what is allowed here is not remembered. */
  private async grantFor(
    { account, entry, toolName, read, followsSettings }: ApprovalWish,
    digest: string,
  ): Promise<GrantFound | null> {
    if (read.kind === 'unusable' || !read.terms.allowedDecisions.includes('allow-always')) return null;
    if (!followsSettings || !this.rules.settings(account).approvalGrants) return null;
    const id = grantIdOf({ pluginId: entry.pluginId, toolName, parametersDigest: digest });
    const events = await this.store.readStream(account, grantStream(id));
    return { id, inForce: events.map(({ event }) => event).reduce(evolveGrant, unknownGrant).inForce };
  }

  private requested(
    { envelope, params, toolName, call, renews }: ApprovalWish,
    terms: ApprovalTerms,
    approvalId: string,
    parametersDigest: string,
    grantable: boolean,
  ): ApprovalRequested {
    const { timeoutReason, detail, scope, ticket } = terms;
    return {
      approvalId,
      title: envelope.seal(terms.title),
      description: envelope.seal(terms.description),
      ...(detail === null ? {} : { detail: envelope.seal(detail) }),
      ...(scope === null ? {} : { scope: envelope.seal(scope) }),
      parameters: envelope.seal(params),
      parametersDigest,
      severity: terms.severity,
      allowedDecisions: terms.allowedDecisions,
      timeoutMs: terms.timeoutMs,
      timeoutBehavior: terms.timeoutBehavior,
      ...(timeoutReason === null ? {} : { timeoutReason: envelope.seal(timeoutReason) }),
      expiresAt: new Date(Date.now() + terms.timeoutMs).toISOString(),
      toolName,
      byPolicy: call.byPolicy,
      grantable,
      ...(ticket === null ? {} : { ticket, instance: this.instance }),
      ...(renews === null ? {} : { renews: renews.approvalId }),
    };
  }
}

const keyOf = (account: string, approvalId: string): string => `${account}\0${approvalId}`;

const cancelled = (approvalId: string, cause: ApprovalCancelled['cause']): NewEvent => ({
  type: 'approval.cancelled',
  data: { approvalId, cause },
});

/** A parameter was changed after the approval: the next one says which it takes the place of. */
const renewal = ({ renews }: ApprovalWish): readonly NewEvent[] =>
  renews === null ? [] : [{ type: 'approval.digest_mismatch', data: asData(renews) }];

const write = (
  approvalId: string,
  fields: EventFields,
  { entry }: ApprovalWish,
  events: readonly NewEvent[],
): Asked['writes'][number] => ({
  stream: approvalStream(approvalId),
  expectedVersion: 0,
  events: events.map((event) => ({
    ...fields,
    pluginId: entry.pluginId,
    pluginVersion: entry.version,
    pluginRevision: entry.revision,
    ...event,
  })),
});

const repeated = [
  'invocationId',
  'turnId',
  'turnInferred',
  'sessionId',
  'agentId',
  'operationId',
  'correlationId',
  'root',
  'dialect',
  'hook',
  'target',
  'pluginId',
  'pluginVersion',
  'pluginRevision',
] as const;

/** What events of an approval repeat of its request, so that they are found by the same words. */
export const aboutApproval = (requested: EventFields): EventFields =>
  Object.fromEntries(repeated.flatMap((field) => (requested[field] === undefined ? [] : [[field, requested[field]]])));
