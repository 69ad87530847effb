import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { codeOf } from './faults.js';
import type { Log } from './pool.js';

/** What `listenForNotices` needs. */
export interface NoticeOptions {
  readonly connectionString: string;
  /** Lower-case name of a channel; it is sent to with `select pg_notify(channel, text)`. */
  readonly channel: string;
  readonly onNotice: (text: string) => void;
  /** It listens, for the first time or again: what was sent before may have been missed. */
  readonly onListening: () => void;
  readonly log?: Log;
}

/** A connection that listens. */
export interface Notices {
  /** False while the connection is lost: notices are missed. */
  isListening(): boolean;
  stop(): Promise<void>;
}

/** Shortest and longest pause before a lost connection is made anew, ms. */
const retryMs = { least: 100, most: 5_000 };

/** After so long without a word the connection is asked whether it lives, ms. */
const probeMs = 10_000;

/**
 * Listens on a connection of its own and makes a new one whenever it is lost. Notices are hints: a listener looks into
 * its table when one comes, and when `onListening` says that some may have been missed.
 */
export const listenForNotices = (options: NoticeOptions): Notices => {
  const { connectionString, channel, onNotice, onListening, log } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  let client: pg.Client | null = null;
  let listening = false;

  const listen = async (): Promise<void> => {
    const opened = new pg.Client({
      connectionString,
      keepAlive: true,
      connectionTimeoutMillis: 5_000,
      query_timeout: 5_000,
      application_name: 'hookledger notices',
    });
    client = opened;
    const ended = new Promise<void>((resolve) => {
      opened.on('error', () => resolve());
      opened.on('end', () => resolve());
    });
    try {
      await opened.connect();
      opened.on('notification', ({ payload }) => onNotice(payload ?? ''));
      await opened.query(`listen ${pg.escapeIdentifier(channel)}`);
      listening = true;
      onListening();
      await Promise.race([ended, probed(opened)]);
    } finally {
      listening = false;
      client = null;
      await opened.end().catch(() => undefined);
    }
  };

  /** Ends when the connection does not answer: a database that went away without a word sends nothing either. */
  const probed = async (opened: pg.Client): Promise<void> => {
    for (;;) {
      await delay(probeMs, undefined, { signal, ref: false });
      await opened.query('select 1');
    }
  };

  const run = async (): Promise<void> => {
    for (let failures = 0; !signal.aborted; failures += 1) {
      const began = performance.now();
      try {
        await listen();
      } catch (error) {
        if (failures === 0 && !stopping.signal.aborted)
          log?.('warn', 'the listening connection was lost', { channel, code: codeOf(error) });
      }
      if (performance.now() - began > retryMs.most) failures = 0;
      const pause = Math.min(retryMs.least * 2 ** Math.min(failures, 6), retryMs.most);
      await delay(pause, undefined, { signal, ref: false }).catch(() => undefined);
    }
  };

  const ended = run();
  return {
    isListening: () => listening,
    stop: async () => {
      stopping.abort();
      await client?.end().catch(() => undefined);
      await ended;
    },
  };
};
