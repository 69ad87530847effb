import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { Inject, Injectable, type BeforeApplicationShutdown, type OnApplicationBootstrap } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { WebSocketServer, type RawData, type WebSocket } from 'ws';
import {
  admit,
  answerOnSocket,
  errorFacts,
  hashKey,
  isId,
  KEY_RING,
  LOGGER,
  Problem,
  problemOf,
  type Caller,
  type KeyRing,
  type Logger,
} from '#platform';
import { newId } from '../new-id.js';
import { maxFrameBytes, readFrame, subprotocol } from './frames.js';
import { HostLink } from './host-link.js';
import { closeCodes, RuntimeConnection } from './runtime-connection.js';

/** How often a runtime is pinged, ms: one that did not answer by the next time is gone. */
const pingMs = 10_000;

/** How often it is looked whether keys still live, ms: a change is in force within a second. */
const keyMs = 500;

/** How long a runtime that named the protocol may take for its hello, ms. */
const helloMs = 10_000;

/** Most runtimes of an account at one replica. */
const maxRuntimes = 200;

/** Frames that cannot be taken, or that nobody wants, which a runtime may send between two pings. */
const maxUseless = 1_000;

const path = /^\/v1\/accounts\/([^/?]+)\/host-link$/u;

/** Lets runtimes in: `GET …/host-link` as a WebSocket (RFC 6455), with a runtime's key. */
@Injectable()
export class LinkDoor implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly sockets = new WebSocketServer({
    noServer: true,
    maxPayload: maxFrameBytes,
    perMessageDeflate: false,
    handleProtocols: (offered) => (offered.has(subprotocol) ? subprotocol : false),
  });
  private timers: readonly NodeJS.Timeout[] = [];
  private isClosed = false;

  constructor(
    @Inject(KEY_RING) private readonly keys: KeyRing,
    @Inject(LOGGER) private readonly logger: Logger,
    private readonly host: HttpAdapterHost,
    private readonly link: HostLink,
  ) {}

  onApplicationBootstrap(): void {
    const server = this.host.httpAdapter.getHttpServer() as Server & {
      shouldUpgradeCallback: (request: IncomingMessage) => boolean;
    };
    // Every other offer to go over is passed by, as HTTP has it, and its request answered as any other.
    server.shouldUpgradeCallback = isForLink;
    server.on('upgrade', (request, socket, head) => void this.open(request, socket, head));
    this.timers = [setInterval(() => this.pingAll(), pingMs), setInterval(() => void this.checkKeys(), keyMs)];
    for (const timer of this.timers) timer.unref();
  }

  beforeApplicationShutdown(): void {
    this.isClosed = true;
    for (const timer of this.timers) clearInterval(timer);
  }

  private async open(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    // Until it is a WebSocket nobody else hears it fail.
    const failed = (): void => void socket.destroy();
    socket.on('error', failed);
    try {
      const account = this.accountIn(request.url ?? '');
      const caller = await admit(request, this.keys, account, ['runtime']);
      const offered = offeredIn(request);
      if (offered.length > 0 && !offered.includes(subprotocol))
        throw new Problem(400, 'unknown_subprotocol', `The subprotocol is ${subprotocol}, or none is named.`);
      if (this.isClosed || socket.destroyed)
        throw new Problem(503, 'stopping', 'This server stops; connect again.', [], { 'retry-after': '1' });
      if (this.link.connectionsOf(account) >= maxRuntimes)
        throw new Problem(429, 'too_many_runtimes', `At most ${maxRuntimes} runtimes connect to one server.`);
      const keyHash = hashKey(/^Bearer +(\S+) *$/iu.exec(request.headers.authorization ?? '')?.[1] ?? '');
      socket.off('error', failed);
      this.sockets.handleUpgrade(request, socket, head, (opened) => {
        this.welcome(opened, account, caller, keyHash);
      });
    } catch (error) {
      const problem = problemOf(error);
      if (problem.status >= 500 && !(error instanceof Problem))
        this.logger.error(errorFacts(error), 'host link failed');
      if (socket.writable) answerOnSocket(socket, problem);
      else socket.destroy();
    }
  }

  private accountIn(url: string): string {
    const [, found = ''] = path.exec(url.split('?')[0] ?? '') ?? [];
    if (url.includes('?')) throw new Problem(400, 'bad_query', 'This route takes no query parameters.');
    const account = decoded(found);
    if (account !== null && isId(account)) return account;
    throw new Problem(400, 'bad_id', 'An id in the path does not fit.');
  }

  private welcome(socket: WebSocket, account: string, caller: Caller, keyHash: string): void {
    const connection = new RuntimeConnection({ id: newId(), account, keyId: caller.keyId, keyHash, socket });
    // One that named the protocol says first what it serves.
    const saysHello = socket.protocol === subprotocol;
    const facts = { account, keyId: caller.keyId, connectionId: connection.id };
    this.logger.info(facts, 'a runtime is connected');
    socket.on('message', (data, isBinary) => void this.hear(connection, data, isBinary));
    socket.on('pong', () => {
      connection.isAlive = true;
    });
    // What ws refuses (a frame too long, bytes that are no UTF-8) it closes by itself.
    socket.on('error', (error) =>
      this.logger.warn({ ...facts, ...errorFacts(error) }, 'a runtime sent what is no frame'),
    );
    socket.on('close', (code) => {
      this.logger.info({ ...facts, code }, 'a runtime is gone');
      void this.link.leave(connection);
    });
    this.link.join(connection, !saysHello);
    if (!saysHello) return;
    const timer = setTimeout(() => {
      if (!connection.isNamed) connection.close(closeCodes.noHello, 'no hello came');
    }, helloMs);
    timer.unref();
    socket.once('close', () => clearTimeout(timer));
  }

  private async hear(connection: RuntimeConnection, data: RawData, isBinary: boolean): Promise<void> {
    if (isBinary) {
      connection.close(closeCodes.notText, 'frames are text');
      return;
    }
    const read = readFrame(Buffer.isBuffer(data) ? data : Buffer.concat(data as readonly Buffer[]));
    if (read.kind === 'frame') await this.link.take(connection, read.frame);
    else {
      connection.say({ type: 'fault', code: read.code, detail: read.detail });
      await this.link.refuse(connection, read.callId, read.detail);
    }
    if (connection.useless > maxUseless) connection.close(closeCodes.policy, 'too many frames that nobody can use');
  }

  /** One that did not answer the last ping is gone. */
  private pingAll(): void {
    for (const connection of this.link.connections()) {
      if (connection.isAlive) connection.ping();
      else connection.cut();
    }
  }

  /** A runtime whose key was revoked or has expired is sent away. */
  private async checkKeys(): Promise<void> {
    for (const connection of [...this.link.connections()]) {
      const key = await this.keys.keyByHash(connection.keyHash).catch(() => undefined);
      if (key === null || hasExpired(key?.expiresAt ?? null))
        connection.close(closeCodes.keyGone, 'the key is not valid any more');
    }
  }
}

const hasExpired = (expiresAt: string | null): boolean => expiresAt !== null && Date.parse(expiresAt) <= Date.now();

const isForLink = (request: IncomingMessage): boolean =>
  request.method === 'GET' &&
  request.headers.upgrade?.toLowerCase() === 'websocket' &&
  path.test((request.url ?? '').split('?')[0] ?? '');

const offeredIn = ({ headers }: IncomingMessage): readonly string[] =>
  (headers['sec-websocket-protocol'] ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');

const decoded = (text: string): string | null => {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
};
