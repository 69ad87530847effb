import { connect } from 'node:net';
import type { Socket } from 'node:net';

/**
 * One keep-alive connection that sends one request at a time. Written on the socket, because the client shares the
 * machine with what it measures: node's own client would cost more than some of the figures.
 */
export interface Connection {
  /** Sends a body and resolves with the answer's. Rejects on any status but 2xx. */
  post(body: string): Promise<string>;
  close(): void;
}

/** Opens a connection for requests to one path. */
export const openConnection = async (url: URL, key: string): Promise<Connection> => {
  const socket = await connected(url);
  const head = [
    `POST ${url.pathname}${url.search} HTTP/1.1`,
    `Host: ${url.host}`,
    `Authorization: Bearer ${key}`,
    'Content-Type: application/json',
    'Content-Length: ',
  ].join('\r\n');
  let waiting: { resolve: (body: string) => void; reject: (error: Error) => void } | null = null;
  let received: Buffer = Buffer.alloc(0);

  const settle = (act: (settled: NonNullable<typeof waiting>) => void): void => {
    const settled = waiting;
    waiting = null;
    if (settled !== null) act(settled);
  };
  socket.on('data', (chunk: Buffer) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
    const answer = readAnswer(received);
    if (answer === null) return;
    received = received.subarray(answer.end);
    settle(({ resolve, reject }) => {
      if (answer.status >= 200 && answer.status < 300) resolve(answer.body);
      else reject(new Error(`${answer.status}: ${answer.body}`));
    });
  });
  const fail = (error: Error): void => {
    settle(({ reject }) => {
      reject(error);
    });
  };
  socket.on('error', fail);
  socket.on('close', () => {
    fail(new Error('the server closed the connection'));
  });

  return {
    post: (body) =>
      new Promise((resolve, reject) => {
        waiting = { resolve, reject };
        socket.write(`${head}${Buffer.byteLength(body)}\r\n\r\n${body}`);
      }),
    close: () => {
      socket.destroy();
    },
  };
};

const connected = (url: URL): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });

const headEnd = Buffer.from('\r\n\r\n');

/** A whole answer with a Content-Length; null while more has to come. */
const readAnswer = (bytes: Buffer): { status: number; body: string; end: number } | null => {
  const split = bytes.indexOf(headEnd);
  if (split < 0) return null;
  const head = bytes.toString('latin1', 0, split);
  const length = Number(/\r\ncontent-length: *(\d+)/iu.exec(head)?.[1] ?? Number.NaN);
  if (Number.isNaN(length)) throw new Error('an answer without Content-Length');
  const end = split + headEnd.length + length;
  if (bytes.length < end) return null;
  return { status: Number(head.slice(9, 12)), body: bytes.toString('utf8', split + headEnd.length, end), end };
};
