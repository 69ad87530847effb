import type { LoggerService } from '@nestjs/common';
import { pino } from 'pino';
import type { Logger } from 'pino';
import type { LogLevel } from './config.js';

export type { Logger } from 'pino';

/**
 * Structured logs, one JSON object a line, on stderr: stdout is for what a person reads at start, the operator key
 * among it, so that a log collector never sees a secret. Content and secrets are never handed to it.
 */
export const createLogger = (level: LogLevel): Logger =>
  pino(
    { level, base: { service: 'hookledger' }, timestamp: pino.stdTimeFunctions.isoTime },
    // Asynchronous: a slow terminal must not hold up a hook. A write per request cost more than the rest of its line, so
    // lines go out together, at the latest after 100 ms, and at exit (pino itself).
    pino.destination({ dest: 2, sync: false, minLength: 4096, periodicFlush: 100 }),
  );

/** What an error may say in a log: its kind and place, and no message, which may quote content or SQL. */
export const errorFacts = (error: unknown): Readonly<Record<string, unknown>> => {
  if (!(error instanceof Error)) return { error: typeof error };
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /u.test(line));
  return {
    error: error.name,
    code: (error as { code?: unknown }).code,
    at: frames.slice(0, 6).map((line) => line.trim()),
    ...(error.cause === undefined ? {} : { cause: errorFacts(error.cause) }),
  };
};

/** Nest's own messages through the same log. Its chatter of start-up is `debug`. */
export const nestLogger = (logger: Logger): LoggerService => ({
  log: (message: unknown, context?: unknown) => logger.debug({ context }, String(message)),
  debug: (message: unknown, context?: unknown) => logger.debug({ context }, String(message)),
  verbose: (message: unknown, context?: unknown) => logger.debug({ context }, String(message)),
  warn: (message: unknown, context?: unknown) => logger.warn({ context }, String(message)),
  error: (message: unknown, stack?: unknown, context?: unknown) => logger.error({ stack, context }, String(message)),
  fatal: (message: unknown, context?: unknown) => logger.fatal({ context }, String(message)),
});
