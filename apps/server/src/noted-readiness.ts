import type { Sql } from '#event-store';
import type { PartState, Readiness } from '#platform';
import type { Sandbox } from '#sandbox';
import type { WatchedLog } from './log-health.js';

/** The parts of `/health/ready` that every role has. Followers add their lags where they are started. */
export const noteReadiness = (readiness: Readiness, { sql, log, sandbox }: Parts): void => {
  readiness.register('database', () => lookAtDatabase(sql, log), 'essential');
  readiness.register('kafka', () => Promise.resolve({ state: 'disabled' }));
  // Nothing to say here until a follower of this process says it.
  readiness.register('relayLag', () => Promise.resolve({ state: 'disabled', value: null }));
  readiness.register('projectionLag', () => Promise.resolve({ state: 'disabled', value: null }));
  readiness.register('sandbox', () => Promise.resolve(lookAtSandbox(sandbox)), 'essential');
};

interface Parts {
  readonly sql: Sql;
  readonly log: WatchedLog;
  readonly sandbox: Sandbox;
}

const lookAtDatabase = async (sql: Sql, log: WatchedLog): Promise<PartState> => {
  await sql.query('select 1');
  return log.refuses() ? { state: 'down', why: 'it takes no events; its disk may be full' } : { state: 'ok' };
};

const lookAtSandbox = (sandbox: Sandbox): PartState => {
  const { state, missing } = sandbox.health();
  return { state, ...(missing.length === 0 ? {} : { why: missing.join('; ') }) };
};
