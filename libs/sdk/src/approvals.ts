import { part, type CallOptions, type Connection } from './connection.js';
import type { Json } from './json.js';

export type ApprovalDecision = 'allow-once' | 'allow-always' | 'deny';

/** Who did something: a key, and on whose behalf. */
export interface Actor {
  readonly kind: 'key' | 'operator' | 'system' | 'plugin';
  readonly id: string;
  readonly onBehalfOf?: string;
}

/** Content for a key that sees none, or that was erased. */
export type Shown<T> =
  T | { readonly hidden: true; readonly size: number } | { readonly erased: true; readonly size: number };

/** What a person is asked. */
export interface Approval {
  readonly id: string;
  readonly state: 'pending' | 'decided' | 'timed_out' | 'cancelled';
  readonly invocationId: string | null;
  readonly sessionId: string | null;
  readonly turnId: string | null;
  readonly agentId: string | null;
  readonly dialect: string | null;
  readonly hook: string | null;
  readonly pluginId: string | null;
  readonly toolName: string | null;
  readonly byPolicy: boolean;
  readonly title: Shown<string>;
  readonly description: Shown<string>;
  readonly detail: Shown<string> | null;
  readonly severity: 'info' | 'warning' | 'critical';
  readonly parameters: Shown<Json>;
  /** Send it with the decision, and nothing else than what was looked at is decided on. */
  readonly parametersDigest: string;
  readonly allowedDecisions: readonly ApprovalDecision[];
  readonly grantable: boolean;
  readonly requestedAt: string;
  readonly requestedBy: Actor | null;
  readonly expiresAt: string;
  readonly timeoutBehavior: 'allow' | 'deny';
  readonly renews: string | null;
  readonly endedAt: string | null;
  readonly decision: ApprovalDecision | null;
  readonly decidedBy: Actor | null;
  readonly reason: Shown<string> | null;
  readonly grantId: string | null;
  readonly cause: string | null;
  readonly resolution: { readonly decision: string; readonly delivered: boolean; readonly cause: string | null } | null;
}

/** What was allowed for always. */
export interface Grant {
  readonly id: string;
  readonly inForce: boolean;
  readonly pluginId: string;
  readonly toolName: string | null;
  readonly parametersDigest: string;
  readonly approvalId: string;
  readonly givenAt: string;
  readonly givenBy: Actor | null;
  readonly revokedAt: string | null;
  readonly revokedBy: Actor | null;
  readonly reason: Shown<string> | null;
  readonly uses: number;
}

/** One page of a list. */
export interface Page<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
  /** Position that the read model has reached. */
  readonly completeUpTo: string | null;
}

export interface ApprovalFilter {
  readonly state?: Approval['state'];
  readonly sessionId?: string;
  readonly turnId?: string;
  readonly agentId?: string;
  readonly invocationId?: string;
  readonly pluginId?: string;
  readonly order?: 'newest' | 'oldest';
  readonly limit?: number;
  readonly cursor?: string;
}

export interface GrantFilter {
  readonly state?: 'in_force' | 'revoked';
  readonly order?: 'newest' | 'oldest';
  readonly limit?: number;
  readonly cursor?: string;
}

/** Approvals and grants; for keys with the role `approver`. */
export class Approvals {
  constructor(private readonly connection: Connection) {}

  async list(filter: ApprovalFilter = {}, options: CallOptions = {}): Promise<Page<Approval>> {
    const request = { method: 'GET', path: 'approvals', query: { ...filter } } as const;
    return (await this.connection.send(request, options)).body as Page<Approval>;
  }

  /** All pages, one after another. */
  async *all(filter: Omit<ApprovalFilter, 'cursor'> = {}, options: CallOptions = {}): AsyncGenerator<Approval> {
    let cursor: string | null = null;
    do {
      const page: Page<Approval> = await this.list({ ...filter, ...(cursor === null ? {} : { cursor }) }, options);
      yield* page.items;
      cursor = page.nextCursor;
    } while (cursor !== null);
  }

  async get(approvalId: string, options: CallOptions = {}): Promise<Approval> {
    const request = { method: 'GET', path: `approvals/${part(approvalId)}` } as const;
    return (await this.connection.send(request, options)).body as Approval;
  }

  /** Decides; the approval as it is then. */
  async decide(
    approvalId: string,
    body: {
      readonly decision: ApprovalDecision;
      readonly reason?: string | null;
      readonly parametersDigest?: string | null;
    },
    options: CallOptions = {},
  ): Promise<Approval> {
    const request = { method: 'POST', path: `approvals/${part(approvalId)}/decision`, body } as const;
    return (await this.connection.send(request, options)).body as Approval;
  }

  async grants(filter: GrantFilter = {}, options: CallOptions = {}): Promise<Page<Grant>> {
    const request = { method: 'GET', path: 'approval-grants', query: { ...filter } } as const;
    return (await this.connection.send(request, options)).body as Page<Grant>;
  }

  /** Takes a grant back: its calls are asked for again. */
  async revokeGrant(grantId: string, reason?: string, options: CallOptions = {}): Promise<void> {
    await this.connection.send(
      {
        method: 'DELETE',
        path: `approval-grants/${part(grantId)}`,
        query: { reason },
        headers: { 'if-match': '*' },
      },
      options,
    );
  }
}
