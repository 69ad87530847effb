import { describe, expect, it } from '@jest/globals';
import type { Caller } from './caller.js';
import { idempotencyOf } from './command-meta.js';
import type { PlatformRequest } from './request.js';

const caller: Caller = { keyId: 'k1', role: 'admin', account: 'acme', content: 'full', onBehalfOf: null };

const sent = (change: Partial<PlatformRequest> = {}): PlatformRequest => {
  const request: Partial<PlatformRequest> = {
    method: 'POST',
    url: '/v1/accounts/acme/keys?wait=1',
    headers: { 'idempotency-key': 'once' },
    rawBody: Buffer.from('{}'),
    caller,
    ...change,
  };
  return request as PlatformRequest;
};

const digest = (change?: Partial<PlatformRequest>): string | undefined => idempotencyOf(sent(change))?.requestDigest;

describe('an idempotency key', () => {
  it('is bound to what is done, not to how long it is waited for', () => {
    expect(digest({ url: '/v1/accounts/acme/keys?wait=9' })).toBe(digest());
    expect(digest({ url: '/v1/accounts/acme/halt' })).not.toBe(digest());
    expect(digest({ method: 'PUT' })).not.toBe(digest());
    expect(digest({ rawBody: Buffer.from('{ }') })).not.toBe(digest());
  });

  it('is bound to the key of who sent it: nobody else gets the first answer', () => {
    expect(digest({ caller: { ...caller, keyId: 'k2' } })).not.toBe(digest());
    expect(digest({ caller: { ...caller, onBehalfOf: 'ada' } })).toBe(digest());
  });

  it('that does not fit is refused at its header', () => {
    const refused = expect.objectContaining({
      status: 400,
      errors: [expect.objectContaining({ pointer: '/header/idempotency-key' })],
    });
    expect(() => idempotencyOf(sent({ headers: { 'idempotency-key': 'a b' } }))).toThrow(refused);
  });
});
