import { dialectOf, type Dialect } from '#dialects';
import type { PluginSnapshot } from '#record';
import type { DialectFacts } from '#plugins';
import { faultyPlugin } from './refusals.js';

/** The dialect of a plugin; 422 for one that this program does not run yet. */
export const knownDialect = (name: PluginSnapshot['dialect']): Dialect => {
  const dialect = dialectOf(name);
  if (dialect !== undefined) return dialect;
  throw faultyPlugin([{ pointer: '/dialect', reason: 'is not a dialect that this program runs' }]);
};

/** The decider's view of a dialect. */
export const factsOf = (name: PluginSnapshot['dialect']): DialectFacts => knownDialect(name);
