import { randomBytes } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import type { EventStore } from '#event-store';
import { hashKey } from '#platform';
import type { Actor, NewEvent } from '#record';
import type { AccountDirectory } from './account-directory.js';
import type { KeyFacts } from './directory-state.js';
import { accountBirthStream, operatorKeyStream, systemAccount } from './directory-state.js';

const itself: Actor = { kind: 'system', id: 'start' };

/** Makes the account `default` where it is missing. Many replicas may start at once; one of them does it. */
export const ensureDefaultAccount = async (store: EventStore, directory: AccountDirectory): Promise<void> => {
  if (await directory.accountExists('default')) return;
  await store.append({
    account: systemAccount,
    writes: [
      {
        stream: accountBirthStream('default'),
        expectedVersion: 0,
        events: [{ type: 'account.created', actor: itself, data: { id: 'default', name: 'Default' } }],
      },
    ],
  });
  await directory.catchUp();
};

/**
 * Sees to it that there is an operator key. One that the environment gives is put in force, and the one that a start
 * had made or been given before is revoked. Without one, the first start makes it: the secret is returned, once, to be
 * shown to whoever started, and only its hash is kept.
 */
export const ensureOperatorKey = async (
  store: EventStore,
  directory: AccountDirectory,
  given: string | null,
): Promise<string | null> => {
  for (;;) {
    const before = await store.readStream(systemAccount, operatorKeyStream);
    if (given === null && before.length > 0) return null;
    const secret = given ?? `hlk_${randomBytes(32).toString('base64url')}`;
    await directory.catchUp();
    const known = [...(directory.account(systemAccount)?.keys.values() ?? [])];
    const current = known.filter(
      (key) => key.revokedAt === null && before.some(({ event }) => event.data.id === key.id),
    );
    if (current.some(({ hash }) => hash === hashKey(secret))) return null;
    const events = [
      ...current.map(revoked),
      created(secret, given === null ? 'first start' : 'HOOKLEDGER_OPERATOR_KEY'),
    ];
    const result = await store.append({
      account: systemAccount,
      writes: [{ stream: operatorKeyStream, expectedVersion: before.length, events }],
    });
    await directory.catchUp();
    if (result.kind === 'appended') return given === null ? secret : null;
    // Another replica was faster; what it did is looked at next.
  }
};

const created = (secret: string, name: string): NewEvent => ({
  type: 'key.created',
  actor: itself,
  data: { id: uuidv7(), role: 'operator', name, content: 'full', expiresAt: null, hash: hashKey(secret) },
});

const revoked = ({ id, role, name }: KeyFacts): NewEvent => ({
  type: 'key.revoked',
  actor: itself,
  data: { id, role, name },
});
