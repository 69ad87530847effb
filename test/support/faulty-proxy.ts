import { connect, createServer, type Server, type Socket } from 'node:net';

/** What happens to one connection. */
export type Fault =
  | { readonly kind: 'none' }
  /** It is reset at once. */
  | { readonly kind: 'refused' }
  /** The server gets all of it; its answer is cut off after so many bytes. */
  | { readonly kind: 'cut'; readonly afterBytes: number };

/** A TCP proxy between a client and a server that breaks connections. */
export interface FaultyProxy {
  readonly url: string;
  /** Connections that came so far. */
  readonly connections: number;
  close(): Promise<void>;
}

/** Starts one; `fault` says for each connection, counted from 0, what happens to it. `port` 0: any. */
export const startFaultyProxy = async (
  target: string,
  fault: (connection: number) => Fault,
  port = 0,
): Promise<FaultyProxy> => {
  const server = new URL(target);
  const open = new Set<Socket>();
  let connections = 0;
  const listener = createServer((near) => {
    const what = fault((connections += 1) - 1);
    open.add(near);
    near.once('close', () => open.delete(near));
    near.on('error', () => undefined);
    if (what.kind === 'refused') {
      near.resetAndDestroy();
      return;
    }
    const far = connect(Number(server.port), server.hostname);
    far.on('error', () => near.destroy());
    far.once('close', () => near.destroy());
    near.once('close', () => far.destroy());
    near.on('data', (bytes) => far.write(bytes));
    let left = what.kind === 'cut' ? what.afterBytes : Infinity;
    far.on('data', (bytes) => {
      const part = bytes.subarray(0, Math.min(bytes.length, left));
      left -= part.length;
      if (left > 0) near.write(part);
      // What was let through arrives, and then the end comes without any word of HTTP.
      else near.write(part, () => near.destroy());
    });
  });
  await listen(listener, port);
  const address = listener.address();
  const proxyPort = typeof address === 'object' && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${String(proxyPort)}`,
    get connections() {
      return connections;
    },
    close: async () => {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
};

const listen = (server: Server, port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
