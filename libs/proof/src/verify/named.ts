/** What is called with every blob and every data key that an event names. */
export interface NamedThings {
  blob(hash: string, keyId: string): void;
  key(keyId: string): void;
}

/**
 * Finds the blobs and data keys that an event's canonical text names. In JSON text a quotation mark inside of a string
 * has a backslash before it, so `{"$` can only be the begin of an object whose first key begins with `$`.
 */
export const findNamed = (text: string, found: NamedThings): void => {
  for (let at = text.indexOf('{"$'); at !== -1; at = text.indexOf('{"$', at + 3)) {
    if (text.startsWith('blob":"', at + 3)) blobAt(text, at + 10, found);
    else if (text.startsWith('sealed":{"b":"', at + 3)) keyAt(text, text.indexOf('"', at + 17), found);
  }
};

const blobAt = (text: string, at: number, found: NamedThings): void => {
  const hash = text.slice(at, at + 64);
  if (!text.startsWith('","k":"', at + 64)) return;
  const end = text.indexOf('"', at + 71);
  if (end !== -1) found.blob(hash, text.slice(at + 71, end));
};

const keyAt = (text: string, at: number, found: NamedThings): void => {
  if (at === -1 || !text.startsWith('","k":"', at)) return;
  const end = text.indexOf('"', at + 7);
  if (end !== -1) found.key(text.slice(at + 7, end));
};
