import { describe, expect, it } from '@jest/globals';
import { causeToken, lineageToken, verifyCause, verifyLineage } from './cause-token.js';

const key = new Uint8Array(32).fill(1);
const now = new Date('2026-11-30T10:00:00.000Z');
const claims = { account: 'a', callId: 'c', invocationId: 'i', root: 'r', hop: 3, expiresAt: now.getTime() + 1 };
const faultOf = (text: string, account = 'a', when = now) => {
  const verified = verifyCause(key, account, text, when);
  return verified.kind === 'refused' ? verified.fault : 'none';
};

describe('a cause token', () => {
  const token = causeToken(key, claims);

  it('carries its claims back', () => {
    expect(verifyCause(key, 'a', token, now)).toEqual({ kind: 'ok', claims });
  });

  it('is refused when any character of it was changed', () => {
    for (let i = 0; i < token.length; i += 1) {
      for (const other of ['A', 'B', 'x', '_', '.']) {
        if (token[i] === other) continue;
        expect(faultOf(token.slice(0, i) + other + token.slice(i + 1))).not.toBe('none');
      }
    }
  });

  it.each([
    ['of another account', () => faultOf(token, 'b'), 'foreign'],
    ['after its time', () => faultOf(token, 'a', new Date(claims.expiresAt)), 'expired'],
    ['under another key', () => faultOf(causeToken(new Uint8Array(32), claims)), 'forged'],
    ['that is a lineage token', () => faultOf(lineageToken(key, claims)), 'forged'],
    ['that is no token', () => faultOf('nonsense'), 'malformed'],
    ['with something behind it', () => faultOf(`${token}.x`), 'malformed'],
  ])('is refused %s', (_, fault, expected) => {
    expect(fault()).toBe(expected);
  });
});

describe('a lineage token', () => {
  it('is the same every time and names its invocation', () => {
    const given = { account: 'a', invocationId: 'i', root: 'r' };
    expect(lineageToken(key, given)).toBe(lineageToken(key, given));
    expect(verifyLineage(key, 'a', lineageToken(key, given))).toEqual({ kind: 'ok', claims: given });
  });
});
