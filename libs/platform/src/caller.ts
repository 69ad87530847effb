import type { Actor } from '#record';

/** Roles of api.md. */
export type Role = 'runtime' | 'admin' | 'approver' | 'auditor' | 'operator';

/** Who sent a request, after the key was checked. */
export interface Caller {
  readonly keyId: string;
  readonly role: Role;
  /** The key's account; null for operator keys, which span accounts. */
  readonly account: string | null;
  /** Whether content may be shown to this key. */
  readonly content: 'full' | 'none';
  /** `Hookledger-On-Behalf-Of`. */
  readonly onBehalfOf: string | null;
}

/** The caller as an event names them. */
export const actorOf = ({ role, keyId, onBehalfOf }: Caller): Actor => ({
  kind: role === 'operator' ? 'operator' : 'key',
  id: keyId,
  ...(onBehalfOf === null ? {} : { onBehalfOf }),
});
