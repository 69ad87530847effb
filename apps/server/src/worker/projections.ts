import { record, textSearch, type Projection } from '#audit';
import type { Sealing } from '#sealing';

/** The read models that run. The text search, which holds plaintext, only where it is wanted. */
export const projections = (sealing: Sealing, wanted: { readonly textSearch: boolean }): readonly Projection[] => [
  record,
  ...(wanted.textSearch ? [textSearch(sealing)] : []),
];
