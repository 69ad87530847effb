import type { StoredEvent } from '#event-store';
import type { Sealing } from '#sealing';
import { shownJson } from './shown-json.js';

/**
 * A stored event as JSON: its position, and then the very text that is stored, hashed and proved; with `open`, its
 * sealed values are opened in it.
 */
export const eventJson = async (
  sealing: Sealing,
  account: string,
  { position, event, bytes }: StoredEvent,
  open: boolean,
): Promise<string> => {
  const stored = open
    ? await shownJson(sealing, { content: 'full' }, account, event)
    : Buffer.from(bytes).toString('utf8');
  return `{"position":"${String(position)}",${stored.slice(1)}`;
};
