import type { Sealing } from '#sealing';
import { pluginLogs } from './plugin-logs.js';
import type { Projection } from './projection.js';
import { record } from './record.js';
import { textSearch } from './text-search.js';

/** The read models that run. The text search, which holds plaintext, only where it is wanted. */
export const allReadModels = (sealing: Sealing, wanted: { readonly textSearch: boolean }): readonly Projection[] => [
  record,
  pluginLogs,
  ...(wanted.textSearch ? [textSearch(sealing)] : []),
];
