import { readFileSync } from 'node:fs';
import { connect, isIP, type Socket } from 'node:net';
import { connect as connectTls, type ConnectionOptions } from 'node:tls';
import type { Kafka, SASLOptions } from 'kafkajs';
import { kafkajs } from './kafkajs-module.js';
import { KafkaFailure } from './port.js';

/** Where a cluster is, and how to get in. */
export interface KafkaSettings {
  /** `host:port` of some brokers; they name the rest. */
  readonly brokers: readonly string[];
  /** Null = in the clear. Files of PEM; `ca` null = the authorities that Node trusts. */
  readonly tls: { readonly ca: string | null; readonly cert: string | null; readonly key: string | null } | null;
  readonly sasl: {
    readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512';
    readonly username: string;
    readonly password: string;
  } | null;
}

/** How long the client waits, ms. */
export interface Patience {
  readonly connectMs: number;
  readonly requestMs: number;
  /** Tries after the first one, within one call. */
  readonly retries: number;
}

/** A client of its own for each use, so that whatever state it gets into ends with it. */
export interface Connections {
  readonly client: Kafka;
  /** Cuts every connection at once: what was not yet on its way never goes out. */
  cut(): void;
}

/** Reads the files of PEM. Throws `KafkaFailure` that names the file which cannot be read. */
export const readTls = ({ tls }: KafkaSettings): ConnectionOptions | null => {
  if (tls === null) return null;
  const { ca, cert, key } = tls;
  return {
    ...(ca === null ? {} : { ca: readPem(ca) }),
    ...(cert === null ? {} : { cert: readPem(cert) }),
    ...(key === null ? {} : { key: readPem(key) }),
  };
};

const readPem = (file: string): string => {
  try {
    const text = readFileSync(file, 'utf8');
    if (text.includes('-----BEGIN ')) return text;
  } catch (error) {
    const { code = 'unknown' } = error as { code?: string };
    throw new KafkaFailure('refused', `${file} cannot be read (${code})`, code);
  }
  throw new KafkaFailure('refused', `${file} holds no PEM`, 'ERR_NO_PEM');
};

/** A client; nothing connects before it is used. */
export const connections = (
  settings: KafkaSettings,
  tls: ConnectionOptions | null,
  patience: Patience,
): Connections => {
  const sockets = new Set<Socket>();
  const client = new kafkajs.Kafka({
    clientId: 'hookledger',
    brokers: [...settings.brokers],
    connectionTimeout: patience.connectMs,
    authenticationTimeout: patience.requestMs,
    requestTimeout: patience.requestMs,
    retry: { retries: patience.retries, initialRetryTime: 200, maxRetryTime: 1_000 },
    // Its log would say the same thing for every try; who uses the client says it once.
    logCreator: () => () => undefined,
    ...(settings.sasl === null ? {} : { sasl: { ...settings.sasl } as SASLOptions }),
    ...(tls === null ? {} : { ssl: tls }),
    socketFactory: ({ host, port, onConnect }) => {
      const socket =
        tls === null
          ? connect({ host, port }, onConnect)
          : connectTls({ host, port, ...(isIP(host) === 0 ? { servername: host } : {}), ...tls }, onConnect);
      socket.setKeepAlive(true, keepAliveMs);
      socket.setNoDelay(true);
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
      return socket;
    },
  });
  return {
    client,
    cut: () => {
      for (const socket of sockets) {
        if (tls === null && socket.readyState === 'open') socket.resetAndDestroy();
        else socket.destroy();
      }
    },
  };
};

const keepAliveMs = 30_000;

/** Ends what `disconnect` would end, within a second and a half; then the connections are cut. */
export const endWithin = async (connected: Connections, disconnect: () => Promise<void>): Promise<void> => {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, 1_500);
  });
  await Promise.race([disconnect().catch(() => undefined), late]);
  clearTimeout(timer);
  connected.cut();
};
