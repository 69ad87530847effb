import { collectDefaultMetrics, Histogram, Registry } from 'prom-client';

/** A registry with what Node itself has to say. */
export const createMetrics = (): Registry => {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  return registry;
};

/** Duration of requests by route pattern: never by path, which holds ids. */
export const requestDurations = (registry: Registry): Histogram<'method' | 'route' | 'status'> =>
  new Histogram({
    name: 'hookledger_http_request_duration_seconds',
    help: 'Time from the first byte of a request to the last byte of its answer.',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
    registers: [registry],
  });
