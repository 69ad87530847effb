/**
 * What a failed append means. `again`: nothing was written, the same may succeed at once. `away`: the database cannot
 * be reached or cannot write; if the statement had been sent, its outcome is unknown. `refused`: nothing was written
 * and the same never will be. `no-partition`: the next part of the log must be made first. `broken`: the database is
 * not what this program expects.
 */
export type Fault = 'again' | 'away' | 'refused' | 'no-partition' | 'broken';

const again = new Set(['40001', '40P01', '55P03', '57014']);
// Connection lost, insufficient resources (disk full), shutting down or starting up, input/output error.
const awayClasses = new Set(['08', '53', '58']);
const away = new Set(['57P01', '57P02', '57P03', '57P05', '25006']);
// Data exceptions, violated constraints, and values beyond a limit (an index row too long).
const refusedClasses = new Set(['22', '23', '54']);

/** Reads an error of the driver. */
export const faultOf = (error: unknown): Fault => {
  const code = codeOf(error);
  // The driver's own errors (terminated, timed out) and the system's (ECONNREFUSED) are no SQLSTATEs.
  if (code === null || !isSqlState(code)) return 'away';
  if (again.has(code)) return 'again';
  const family = code.slice(0, 2);
  if (away.has(code) || awayClasses.has(family)) return 'away';
  if (code === '23514' && isAboutPartitions(error)) return 'no-partition';
  return refusedClasses.has(family) ? 'refused' : 'broken';
};

/**
 * Whether an error leaves open if the statement was committed. An answer of the server that is not about the session's
 * end says that it was rolled back.
 */
export const isUncertain = (error: unknown): boolean => {
  const code = codeOf(error);
  return code === null || !isSqlState(code) || code.startsWith('57P') || code.startsWith('08');
};

// EPIPE is as long as an SQLSTATE, but none begins with E.
const isSqlState = (code: string): boolean => /^(?!E)[\dA-Z]{5}$/u.test(code);

// A missing partition shares its SQLSTATE with check constraints, but names no constraint.
const isAboutPartitions = (error: unknown): boolean =>
  error instanceof Error && (!('constraint' in error) || error.constraint === undefined);

/**
 * Whether anything thrown says that the database is away. What the work of a transaction throws on its own account has
 * neither an SQLSTATE nor a system code, and is not the database's.
 */
export const isDatabaseAway = (error: unknown): boolean => {
  const code = codeOf(error);
  if (code === null) return error instanceof Error && driverWords.test(error.message);
  return (isSqlState(code) || /^E[A-Z]+$/u.test(code)) && faultOf(error) === 'away';
};

// The driver gives its own errors no code: timed out, terminated, lost.
const driverWords = /\btimeout\b|\bterminated\b|not queryable/iu;

/** SQLSTATE or system error code, for logs and decisions; null when it has none. */
export const codeOf = (error: unknown): string | null => {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : null;
  return typeof code === 'string' ? code : null;
};
