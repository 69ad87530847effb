import type { Dialect } from './dialect.js';
import { kohaku } from './kohaku/kohaku.js';
import { middleware } from './middleware/middleware.js';
import { openclaw } from './openclaw/openclaw.js';

const dialects: ReadonlyMap<string, Dialect> = new Map(
  [middleware, openclaw, kohaku].map((dialect) => [dialect.name, dialect]),
);

/** A dialect by its name in paths and events; undefined when there is none of that name. */
export const dialectOf = (name: string): Dialect | undefined => dialects.get(name);

/** The names of all dialects, in the order in which they came to be. */
export const dialectNames: readonly string[] = [...dialects.keys()];
