import { rawPublicKey, verifierKeyText } from '#proof';
import type { LogKey } from './log-keys.js';

/** A log key as people and verifiers see it. */
export interface LogKeyView {
  readonly id: string;
  readonly name: string;
  /** Ed25519, base64 of the 32 bytes. */
  readonly publicKey: string;
  /** The same as a verifier key of C2SP signed-note. */
  readonly verifierKey: string;
  readonly validFrom: string;
  readonly validUntil: string | null;
}

export const viewOf = ({ id, verifier, validFrom, validUntil }: LogKey): LogKeyView => ({
  id,
  name: verifier.name,
  publicKey: rawPublicKey(verifier.publicKey).toString('base64'),
  verifierKey: verifierKeyText(verifier),
  validFrom,
  validUntil,
});

/** JSON Schema of `LogKeyView`. */
export const logKeySchema = {
  type: 'object',
  required: ['id', 'name', 'publicKey', 'verifierKey', 'validFrom', 'validUntil'],
  properties: {
    id: { type: 'string', description: 'Key ID of C2SP signed-note, 8 hex digits: what signature lines name.' },
    name: { type: 'string', description: '`hookledger/` and the id of the log.' },
    publicKey: { type: 'string', description: 'Ed25519 public key (RFC 8032), 32 bytes in base64.' },
    verifierKey: { type: 'string', description: 'Verifier key of C2SP signed-note: name+id+base64.' },
    validFrom: { type: 'string', format: 'date-time' },
    validUntil: { type: 'string', format: 'date-time', nullable: true, description: 'Null while it is in force.' },
  },
};
