import type { FastifyRequest } from 'fastify';
import type { Caller } from './caller.js';

/** A request as the platform's hooks and guard leave it for the routes. */
export interface PlatformRequest extends FastifyRequest {
  /** The body's exact bytes, where there was one. */
  rawBody?: Buffer;
  /** Set by the guard on every route that is not public. */
  caller?: Caller;
}

/** A request as far as its headers go: of a route, or one to go over to another protocol. */
export type WithHeaders = Pick<FastifyRequest, 'headers'>;

/** The one value of a header; Node joins repeated ones of this kind or keeps the first. */
export const headerOf = (request: WithHeaders, name: string): string | undefined => {
  const value = request.headers[name];
  return Array.isArray(value) ? value[0] : value;
};
