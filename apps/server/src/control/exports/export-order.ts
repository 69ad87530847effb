import type { EventStore } from '#event-store';
import type { Sealed } from '#record';
import type { Sealing } from '#sealing';
import type { ExportOrder } from './export-files.js';
import type { ExportQuery } from './export-query.js';
import { readExportQuery } from './export-query.js';

/** Stream of one export. */
export const exportStream = (id: string): string => `export/${id}`;

/** `data` of `export.created`. */
export interface ExportCreated {
  readonly exportId: string;
  readonly format: 'jsonl' | 'csv';
  readonly query: Sealed;
  readonly range: { readonly first: string; readonly last: string; readonly events: number };
  readonly content: 'full' | 'none';
  readonly digest: null;
}

/** An export as it was asked for, with who asked and when. */
export interface AskedExport extends ExportOrder {
  readonly askedAt: string;
  readonly query: Sealed;
}

/** An export by its event; null where there is none in this account. */
export const orderedExport = async (
  store: EventStore,
  sealing: Sealing,
  account: string,
  id: string,
): Promise<AskedExport | null> => {
  const [stored] = await store.readStream(account, exportStream(id));
  if (stored?.event.type !== 'export.created') return null;
  const { format, query, range, content } = stored.event.data as unknown as ExportCreated;
  const opened = await sealing.open(account, query);
  if (opened.kind === 'erased') return null;
  return {
    account,
    id,
    format,
    content,
    filter: readExportQuery(opened.value as unknown as ExportQuery),
    // No events at all are a range that ends before it begins.
    range: { first: BigInt(range.first), last: BigInt(range.first) + BigInt(range.events) - 1n },
    askedAt: stored.event.recordedAt,
    query,
  };
};
