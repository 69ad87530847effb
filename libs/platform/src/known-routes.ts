import type { FastifyInstance } from 'fastify';

interface KnownRoute {
  readonly method: string;
  readonly pattern: RegExp;
}

const known = new WeakMap<object, KnownRoute[]>();

/** Notes every route as it is registered, so that a wrong method is told from a wrong path. */
export const noteRoutes = (fastify: FastifyInstance): void => {
  const routes: KnownRoute[] = [];
  known.set(fastify.server, routes);
  fastify.addHook('onRoute', ({ method, url }) => {
    const methods = Array.isArray(method) ? method : [method];
    for (const one of methods) routes.push({ method: one, pattern: patternOf(url) });
  });
};

/** The methods that a path takes; none: there is nothing at it. */
export const methodsAt = (fastify: FastifyInstance, path: string): readonly string[] => {
  const routes = known.get(fastify.server) ?? [];
  return [...new Set(routes.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method))];
};

const patternOf = (url: string): RegExp => {
  const escaped = url.split('/').map((part) => {
    if (part.startsWith(':')) return '[^/]+';
    return part === '*' ? '.*' : part.replaceAll(/[.*+?^${}()|[\]\\]/gu, '\\$&');
  });
  return new RegExp(`^${escaped.join('/')}$`, 'u');
};
