import { record, textSearch, type Projection } from '#audit';
import type { Sealing } from '#sealing';
import { pluginLogs } from '../control/plugins/plugin-logs.js';

/** The read models that run. The text search, which holds plaintext, only where it is wanted. */
export const projections = (sealing: Sealing, wanted: { readonly textSearch: boolean }): readonly Projection[] => [
  record,
  pluginLogs,
  ...(wanted.textSearch ? [textSearch(sealing)] : []),
];
