import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import type { FastifyBodyParser, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Registry } from 'prom-client';
import type { KeyRing } from './auth.js';
import { identify } from './auth.js';
import { maxBodyBytes, readJsonBody } from './json-body.js';
import type { Logger } from './logger.js';
import { requestDurations } from './metrics.js';
import { noteRoutes } from './known-routes.js';
import { Problem } from './problem.js';
import { problemJson, problemOf, sendProblem } from './problem-filter.js';
import type { PlatformRequest } from './request.js';

/** An id of 200 characters, each percent-encoded at its longest. */
const maxParamLength = 200 * 12;

/**
 * Nest's Fastify adapter as the API wants it: bodies through one strict parser, every refusal as problem+json, a log
 * line and a duration per request.
 */
export const createHttpAdapter = (logger: Logger, metrics: Registry, keys: KeyRing): FastifyAdapter => {
  const adapter = new FastifyAdapter({
    bodyLimit: maxBodyBytes,
    routerOptions: { maxParamLength },
    genReqId: requestIdOf,
    requestIdHeader: false,
    // A stop closes idle connections and lets the others finish; the program cuts what outlasts its patience.
    forceCloseConnections: 'idle',
    clientErrorHandler: refuseNonsense,
    // Node's own refusals have no body; `refuseOddRequests` says the same in words.
    http: { requireHostHeader: false },
    frameworkErrors: (error: Error, request: FastifyRequest, reply: FastifyReply) =>
      sendProblem(reply, problemOf(error), request.id),
  });
  const fastify = adapter.getInstance<FastifyInstance>();
  refuseOddRequests(fastify);
  noteRoutes(fastify);
  takeJsonOnly(fastify);
  noteRequests(fastify, logger, metrics);
  askForKeyBeforeBody(fastify, keys);
  return adapter;
};

/** A caller's own id is kept where it is one, so that both sides' logs can be laid side by side. */
const requestIdOf = (request: IncomingMessage): string => {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && /^[\w.:-]{1,128}$/u.test(given) ? given : randomUUID();
};

/** What is no HTTP never becomes a request: answered on the socket, as a problem too. */
const refuseNonsense = (error: NodeJS.ErrnoException, socket: Socket): void => {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const [status, code, detail] = nonsense[error.code ?? ''] ?? [400, 'bad_request', 'This is not valid HTTP.'];
  answerOnSocket(socket, new Problem(status, code, detail));
};

/** Refuses on the bare socket, as a problem too, and ends it. */
export const answerOnSocket = (socket: Duplex, problem: Problem): void => {
  const { status } = problem;
  const body = JSON.stringify(problemJson(problem, randomUUID()));
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Error'}`;
  const length = String(Buffer.byteLength(body));
  const headers = `content-type: application/problem+json\r\ncontent-length: ${length}\r\nconnection: close`;
  socket.end(`${head}\r\n${headers}\r\n\r\n${body}`);
};

const nonsense: Readonly<Record<string, readonly [number, string, string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'request_timeout', 'The request did not arrive in time.'],
  HPE_HEADER_OVERFLOW: [431, 'headers_too_large', 'The headers are too large.'],
};

/** What Node's parser lets through or refuses without a word: no one host (RFC 9112 §3.2), `Expect`, tunnels. */
const refuseOddRequests = (fastify: FastifyInstance): void => {
  fastify.server.on('checkExpectation', (_request, response: ServerResponse) => {
    const problem = new Problem(417, 'expectation_failed', 'Expect takes 100-continue only.');
    const body = JSON.stringify(problemJson(problem, randomUUID()));
    response.writeHead(417, { 'content-type': 'application/problem+json', connection: 'close' }).end(body);
  });
  fastify.server.on('connect', (_request, socket: Duplex) => {
    answerOnSocket(socket, new Problem(405, 'method_not_allowed', 'This is no proxy.'));
  });
  fastify.addHook('onRequest', (request, _reply, done) => {
    const { httpVersion, rawHeaders } = request.raw;
    const hosts = rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'host').length;
    if (hosts === 1 || (hosts === 0 && httpVersion === '1.0')) done();
    else done(new Problem(400, 'bad_host', 'A request has exactly one Host header.'));
  });
};

/** No route takes a body without a key, so no body is read, up to 8 MiB of it, for somebody who has none. */
const askForKeyBeforeBody = (fastify: FastifyInstance, keys: KeyRing): void => {
  fastify.addHook('onRequest', async (request: PlatformRequest) => {
    const { 'content-length': length = '0', 'transfer-encoding': chunked } = request.headers;
    if (length !== '0' || chunked !== undefined) request.caller = await identify(request, keys);
  });
};

const jsonType = /^application\/(?:json|[\w.-]+\+json)(?:\s*;|\s*$)/iu;

const takeJsonOnly = (fastify: FastifyInstance): void => {
  fastify.removeAllContentTypeParsers();
  const options = { parseAs: 'buffer', bodyLimit: maxBodyBytes } as const;
  const parse: FastifyBodyParser<Buffer> = (request, body, done) => {
    try {
      done(null, readBody(request, body));
    } catch (error) {
      done(error as Error);
    }
  };
  fastify.addContentTypeParser('application/json', options, parse);
  fastify.addContentTypeParser(jsonType, options, parse);
};

const readBody = (request: FastifyRequest, body: Buffer): unknown => {
  const encoding = request.headers['content-encoding']?.toLowerCase() ?? 'identity';
  if (encoding !== 'identity') throw new Problem(415, 'encoded_body', 'Send the body without a content encoding.');
  const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/iu.exec(request.headers['content-type'] ?? '')?.[1]?.toLowerCase();
  if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8') {
    throw new Problem(415, 'not_utf8_type', 'JSON is UTF-8 (RFC 8259 §8.1).');
  }
  (request as PlatformRequest).rawBody = body;
  return body.length === 0 ? undefined : readJsonBody(body);
};

const noteRequests = (fastify: FastifyInstance, logger: Logger, metrics: Registry): void => {
  const durations = requestDurations(metrics);
  fastify.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id).header('x-content-type-options', 'nosniff');
    done();
  });
  fastify.addHook('onResponse', (request: PlatformRequest, reply, done) => {
    // The pattern, not the path: paths hold ids of sessions and people.
    const route = request.routeOptions.url ?? 'unknown';
    const ms = Math.round(reply.elapsedTime * 1000) / 1000;
    durations.observe({ method: request.method, route, status: String(reply.statusCode) }, reply.elapsedTime / 1000);
    const facts = { requestId: request.id, method: request.method, route, status: reply.statusCode, ms };
    const account = (request.params as { account?: string } | undefined)?.account;
    const caller =
      request.caller === undefined ? {} : { account, keyId: request.caller.keyId, role: request.caller.role };
    if (route.startsWith('/health/') || route === '/metrics') logger.debug({ ...facts, ...caller }, 'request');
    else logger.info({ ...facts, ...caller }, 'request');
    done();
  });
};
