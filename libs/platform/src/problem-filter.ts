import { STATUS_CODES } from 'node:http';
import type { ArgumentsHost, ExceptionFilter } from '@nestjs/common';
import { Catch, HttpException, Inject, Injectable } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { LogBusy, LogRefused, LogUnavailable } from '#event-store';
import { methodsAt } from './known-routes.js';
import type { Logger } from './logger.js';
import { errorFacts } from './logger.js';
import { Problem } from './problem.js';
import type { PlatformRequest } from './request.js';
import { LOGGER } from './tokens.js';

/** A problem as it goes over the wire (RFC 9457). */
export const problemJson = (problem: Problem, requestId: string): object => ({
  type: `urn:hookledger:problem:${problem.code}`,
  title: STATUS_CODES[problem.status] ?? 'Error',
  status: problem.status,
  code: problem.code,
  detail: problem.detail,
  // Field by field: what a fault carries besides is for this program.
  errors: problem.errors.map(({ pointer, reason, line, column }) => ({ pointer, reason, line, column })),
  requestId,
  ...problem.members,
});

/**
 * What anything thrown means to a caller. Only a `Problem` says what it says; of everything else the caller learns
 * the kind, never a message that could quote content, SQL or a place in the code.
 */
export const problemOf = (error: unknown): Problem => {
  if (error instanceof Problem) return error;
  if (error instanceof LogBusy) return unavailable('log_busy', 'The log is busy; nothing was recorded. Try again.');
  if (error instanceof LogUnavailable) {
    return unavailable(
      'log_unavailable',
      'The log cannot be reached; nothing was recorded. Do not proceed. Try again.',
    );
  }
  if (isDatabaseAway(error)) {
    return unavailable('database_unavailable', 'The database cannot be reached; nothing was recorded. Try again.');
  }
  if (error instanceof LogRefused) return new Problem(422, 'not_storable', 'This cannot be recorded as it is.');
  if (error instanceof HttpException) return problemOfHttp(error.getStatus());
  return (
    problemOfFastify(error) ??
    new Problem(
      500,
      'internal_error',
      'Something failed here. Nothing more is known to you; the log of the server has the request id.',
    )
  );
};

const awayCodes = ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND'];

/** What the driver says when the database is away, restarting, full, or takes no more connections. */
const isDatabaseAway = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  // SQLSTATE classes: 08 connection, 53 resources, 57P shutdown and restart, 25006 a standby.
  if (typeof code === 'string') return awayCodes.includes(code) || /^(?:08...|53...|57P..|25006)$/u.test(code);
  return /^Connection terminated|^timeout exceeded when trying to connect/u.test(error.message);
};

const unavailable = (code: string, detail: string): Problem =>
  new Problem(503, code, detail, [], { 'retry-after': '1' });

/** Nest hands Fastify's refusals on by their status alone. */
const httpProblems: Readonly<Record<number, readonly [string, string]>> = {
  404: ['unknown_route', 'There is nothing at this path.'],
  413: ['body_too_large', 'The body is larger than 8 MiB.'],
  415: ['not_json_type', 'Send application/json, or a type that ends in +json.'],
};

const problemOfHttp = (status: number): Problem =>
  new Problem(status, ...(httpProblems[status] ?? (['refused', STATUS_CODES[status] ?? 'Error'] as const)));

const fastifyProblems: Readonly<Record<string, readonly [number, string, string]>> = {
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: [400, 'bad_content_length', 'Content-Length and the body differ.'],
  FST_ERR_BAD_URL: [400, 'bad_url', 'The path is not valid percent-encoded UTF-8.'],
  FST_ERR_MAX_PARAM_LENGTH: [400, 'bad_id', 'An id in the path is longer than 200 characters.'],
};

const problemOfFastify = (error: unknown): Problem | null => {
  const { code, statusCode } = (error ?? {}) as { code?: unknown; statusCode?: unknown };
  const known = typeof code === 'string' ? fastifyProblems[code] : undefined;
  if (known !== undefined) return new Problem(...known);
  if (typeof statusCode !== 'number' || statusCode < 400 || statusCode > 499) return null;
  return problemOfHttp(statusCode);
};

/** Answers with a problem. The body goes as bytes, so that its type is exactly `application/problem+json`. */
export const sendProblem = (reply: FastifyReply, problem: Problem, requestId: string): void => {
  const body = Buffer.from(JSON.stringify(problemJson(problem, requestId)));
  // A connection that is closed on a client that still sends takes the answer with it: what is left of a body that is
  // too large is read and dropped instead, for as long as a request may take.
  if (problem.status === 413) void reply.header('connection', 'keep-alive');
  void reply
    .code(problem.status)
    .headers(problem.headers)
    .header('content-type', 'application/problem+json')
    .send(body);
};

/** 404 where nothing is at the path, 405 with `Allow` where only the method does not fit (RFC 9110 §15.5.6). */
const unknownRoute = (request: PlatformRequest): Problem => {
  const allowed = methodsAt(request.server, request.url.split('?', 1)[0] ?? '');
  if (allowed.length === 0) return new Problem(404, 'unknown_route', 'There is nothing at this path.');
  const allow = allowed.join(', ');
  return new Problem(405, 'method_not_allowed', `This path takes ${allow}.`, [], { allow });
};

/** Every error of every route, as problem+json. */
@Catch()
@Injectable()
export class ProblemFilter implements ExceptionFilter {
  private lastUnavailable = Number.NEGATIVE_INFINITY;

  constructor(@Inject(LOGGER) private readonly logger: Logger) {}

  catch(error: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    const request = http.getRequest<PlatformRequest>();
    const reply = http.getResponse<FastifyReply>();
    const problem = request.is404 ? unknownRoute(request) : problemOf(error);
    this.note(error, problem, request.id);
    // A stream that has begun cannot change its mind; its end is all that can be said.
    if (reply.raw.headersSent) reply.raw.destroy();
    else sendProblem(reply, problem, request.id);
  }

  /** What failed on our side. While the database is away that is every request: one line a second says it. */
  private note(error: unknown, problem: Problem, requestId: string): void {
    if (problem.status === 500) this.logger.error({ requestId, ...errorFacts(error) }, 'a request failed');
    if (problem.status !== 503 || performance.now() - this.lastUnavailable < 1000) return;
    this.lastUnavailable = performance.now();
    this.logger.warn({ requestId, problem: problem.code, ...errorFacts(error) }, 'requests are refused for now');
  }
}
