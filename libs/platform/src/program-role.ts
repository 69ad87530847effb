import { createHash } from 'node:crypto';
import { derivedKey } from './derived-key.js';

/** The role that the program itself has in the embedded database: it may add to the log and not change it. */
export const programRole = 'hookledger_app';

/** Its password, derived from the owner's, so that there is one secret to keep. Hexadecimal: nothing needs quoting. */
export const programPassword = (ownerUrl: string): string =>
  derivedKey(createHash('sha256').update(new URL(ownerUrl).password).digest(), 'hookledger/program-role/v1').toString(
    'hex',
  );

/** The embedded database as the program uses it, of its URL as its owner does. */
export const programUrl = (ownerUrl: string): string => {
  const own = new URL(ownerUrl);
  own.username = programRole;
  own.password = programPassword(ownerUrl);
  return own.href;
};
