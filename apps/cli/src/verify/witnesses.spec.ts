import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { noteSigner, verifierKeyText } from '#proof';
import { readLogKeys } from './witnesses.js';

const signer = noteSigner('hookledger/log', generateKeyPairSync('ed25519').privateKey);
const verifierKey = verifierKeyText(signer);
const key = { id: signer.id, verifierKey, validFrom: '2026-01-02T03:04:05.678Z', validUntil: null };

describe('the public keys of a log', () => {
  it.each([
    ['log-keys.json', JSON.stringify({ logId: 'log', keys: [key] })],
    ['the answer of GET /v1/log-keys', JSON.stringify({ log: 'log', items: [key] })],
    ['lines', `${verifierKey}\n`],
  ])('are read from %s', (_what, text) => {
    expect(readLogKeys(text)?.map(({ verifier }) => verifier.id)).toEqual([signer.id]);
  });

  it.each([
    ['other JSON', '{"other":[]}'],
    ['no JSON', '{'],
    ['nothing', ''],
    ['a list of others', '{"items":[{"id":"x"}]}'],
  ])('are not found in %s', (_what, text) => {
    expect(readLogKeys(text)).toBeNull();
  });
});
