import type { Sql } from '#event-store';
import type { PartState, Readiness } from '#platform';
import type { Sandbox } from '#sandbox';

/** The parts of `/health/ready` that every role has. Followers add their lags where they are started. */
export const noteReadiness = (
  readiness: Readiness,
  { sql, sandbox }: { readonly sql: Sql; readonly sandbox: Sandbox },
): void => {
  readiness.register('database', () => lookAtDatabase(sql), 'essential');
  readiness.register('kafka', () => Promise.resolve('disabled'));
  readiness.register('relayLag', () => Promise.resolve(null));
  readiness.register('projectionLag', () => Promise.resolve(null));
  readiness.register('sandbox', () => Promise.resolve(lookAtSandbox(sandbox)), 'essential');
};

const lookAtDatabase = async (sql: Sql): Promise<PartState> => {
  await sql.query('select 1');
  return { state: 'ok' };
};

const lookAtSandbox = (sandbox: Sandbox): PartState => {
  const { state, missing } = sandbox.health();
  return { state, ...(missing.length === 0 ? {} : { why: missing.join('; ') }) };
};
