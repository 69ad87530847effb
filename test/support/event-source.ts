import { request } from 'node:http';

/** A reader of server-sent events that keeps what came. */
export interface EventSourceReader {
  readonly events: readonly { readonly id: string; readonly data: unknown }[];
  /** The last id, of events and of blocks without data. */
  readonly lastId: () => string | null;
  /** Resolves when the server ends the stream. */
  readonly ended: Promise<void>;
  /** Breaks the connection off, as a reader does who goes away; what was cut off in the middle is dropped. */
  close(): Promise<void>;
}

/** Opens a stream with a key; rejects unless it is answered 200. */
export const openEventSource = (url: string, key: string, lastEventId?: string): Promise<EventSourceReader> =>
  new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${key}`,
      accept: 'text/event-stream',
      ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
    };
    const opening = request(url, { headers }, (response) => {
      if (response.statusCode !== 200) {
        response.resume();
        reject(new Error(`the stream was answered ${String(response.statusCode)}`));
        return;
      }
      const events: { id: string; data: unknown }[] = [];
      let lastId: string | null = null;
      let rest = '';
      response.setEncoding('utf8');
      response.on('data', (text: string) => {
        const blocks = (rest + text).split('\n\n');
        rest = blocks.pop() ?? '';
        for (const block of blocks) {
          const lines = block.split('\n');
          const id = lines.find((line) => line.startsWith('id: '))?.slice(4);
          const data = lines.find((line) => line.startsWith('data: '))?.slice(6);
          if (id !== undefined) lastId = id;
          if (id !== undefined && data !== undefined) events.push({ id, data: JSON.parse(data) as unknown });
        }
      });
      const ended = new Promise<void>((done) => response.once('close', done));
      response.on('error', () => undefined);
      resolve({
        events,
        lastId: () => lastId,
        ended,
        close: async () => {
          response.destroy();
          await ended;
        },
      });
    });
    opening.once('error', reject);
    opening.end();
  });
