import type { BlobWrite } from '#event-store';
import type { Sealed } from '#record';
import { parseJson } from '#record';
import type { Envelope, OpenedText, Scope, Sealing } from './sealing.js';
import type { SealingKey } from './sealing-key.js';
import { hmacOf } from './sealing-key.js';
import { openBlob, openInline, sealedSize, sealText } from './value-cipher.js';

/** Where data keys come from. */
export interface DataKeys {
  /** The scope's living key, made and committed when there is none. */
  current(account: string, scope: string): Promise<SealingKey>;
  /** A key by id: null when it was destroyed. Throws when there never was one. */
  byId(id: string): Promise<SealingKey | null>;
}

/** Scope of the account's own key. */
export const accountScope = 'account';
/** Scope of the key that search hashes are made with. */
const searchScope = 'search';

/** Sealing over a source of keys and of blobs. */
export const keyedSealing = (
  keys: DataKeys,
  blobOf: (hash: string) => Promise<Uint8Array | null>,
  sealedBlob: (blob: BlobWrite) => void = () => undefined,
): Sealing => {
  const openText = async (account: string, sealed: Sealed): Promise<OpenedText> => {
    const key = await keys.byId('$blob' in sealed ? sealed.k : sealed.$sealed.k);
    if (key === null) return { kind: 'erased', size: sealedSize(sealed) };
    if (key.account !== account) throw new Error('a sealed value of another account');
    if (!('$blob' in sealed)) return { kind: 'open', text: openInline(key, sealed.$sealed.b) };
    const bytes = await blobOf(sealed.$blob);
    if (bytes === null) throw new Error('the blob of a sealed value is missing');
    return { kind: 'open', text: openBlob(key, bytes) };
  };

  const searchHash = async (account: string, text: string): Promise<string> =>
    hmacOf((await keys.current(account, searchScope)).search, text);

  return {
    envelope: async (account, scope) =>
      envelopeUnder(await keys.current(account, await scopeName(scope, (id) => searchHash(account, id))), sealedBlob),
    openText,
    open: async (account, sealed) => {
      const opened = await openText(account, sealed);
      return opened.kind === 'erased' ? opened : { kind: 'open', value: parseJson(opened.text) };
    },
    searchHash,
    sizeOf: sealedSize,
  };
};

/** A scope in the words of the key table: a person only as an HMAC, so that the table forgets them too. */
export const scopeName = async (scope: Scope, hmac: (id: string) => Promise<string>): Promise<string> => {
  if (scope.kind === 'account') return accountScope;
  return scope.kind === 'session' ? `session:${scope.id}` : `subject:${await hmac(scope.id)}`;
};

const envelopeUnder = (key: SealingKey, sealedBlob: (blob: BlobWrite) => void): Envelope => {
  const known = new Map<string, Sealed>();
  const blobs: BlobWrite[] = [];
  const seal = (jsonText: string): Sealed => {
    const before = known.get(jsonText);
    if (before !== undefined) return before;
    const { sealed, blob } = sealText(key, jsonText);
    known.set(jsonText, sealed);
    if (blob !== null) {
      blobs.push(blob);
      sealedBlob(blob);
    }
    return sealed;
  };
  return { seal: (value) => seal(JSON.stringify(value)), sealText: seal, blobs: () => blobs };
};
