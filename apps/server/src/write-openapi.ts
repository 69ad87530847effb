import { writeFileSync } from 'node:fs';
import { NestFactory } from '@nestjs/core';
import { createHttpAdapter, createLogger, createMetrics, readConfig } from '#platform';
import { AppModule } from './app.module.js';
import type { AppServices } from './app.module.js';
import { describeApi } from './openapi.js';

/**
 * Writes the API's description, as the running server publishes it, to the file named on the command line. Nothing is
 * started: in preview Nest looks at the modules and makes none of their parts.
 */
const main = async (path: string): Promise<void> => {
  const logger = createLogger('silent');
  const nothing: unknown = {};
  const services = { ...(nothing as AppServices), config: readConfig({}, '/'), logger, metrics: createMetrics() };
  const adapter = createHttpAdapter(logger, services.metrics, services.keyRing);
  const app = await NestFactory.create(AppModule.with(services), adapter, {
    preview: true,
    logger: false,
    abortOnError: false,
  });
  writeFileSync(path, `${JSON.stringify(describeApi(app), null, 2)}\n`);
};

await main(process.argv[2] ?? 'openapi.json');
