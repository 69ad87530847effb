import { queryPosition } from '#platform';

const hash = (description: string): object => ({ type: 'string', description: `${description} 32 bytes in base64.` });
const size = (description: string): object => ({ type: 'string', pattern: '^[0-9]+$', description });
const note = {
  type: 'string',
  nullable: true,
  description: 'The signed checkpoint of that very size, where one was signed.',
};
const object = (properties: { readonly [name: string]: object }): object => ({
  type: 'object',
  required: Object.keys(properties),
  properties,
});

export const proofFields = {
  size: queryPosition('Size of the tree to prove it for; the newest signed one where it is absent.'),
} as const;

export const consistencyFields = {
  from: queryPosition('The older size. Must be there.'),
  to: queryPosition('The newer size; the newest signed one where it is absent.'),
} as const;

export const proofSchema = object({
  account: { type: 'string' },
  position: size('Position of the event: the index of its leaf.'),
  size: size('Size of the tree.'),
  rootHash: hash('Root of the tree of that size (RFC 6962).'),
  leafBytes: { type: 'string', nullable: true, description: 'The stored bytes, base64; null where they were purged.' },
  leafHash: hash('SHA-256(0x00 ‖ leafBytes).'),
  inclusionPath: { type: 'array', items: hash('From the leaf upwards (RFC 6962 §2.1.1).') },
  checkpoint: note,
});

export const consistencySchema = object({
  account: { type: 'string' },
  from: size('The older size.'),
  to: size('The newer size.'),
  fromRootHash: hash('Root at the older size.'),
  toRootHash: hash('Root at the newer size.'),
  consistencyPath: { type: 'array', items: hash('RFC 6962 §2.1.2.') },
  checkpoint: note,
});
