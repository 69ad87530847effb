import { NestFactory } from '@nestjs/core';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import type { Logger, ServerConfig } from '#platform';
import { createHttpAdapter, nestLogger, StartFailure } from '#platform';
import { AppModule } from './app.module.js';
import type { AppServices } from './app.module.js';
import { ensureOperatorKey } from './control/accounts/first-start.js';
import { startHeartbeat } from './instance-heartbeat.js';
import { recordStart } from './instance-started.js';
import { documentApi } from './openapi.js';
import { programVersion } from './program-version.js';
import { startServices } from './services.js';

/** The program, running and listening. */
export interface RunningServer {
  readonly url: string;
  /** Set when this start made the operator key: shown once, kept nowhere. */
  readonly operatorKey: string | null;
  /** Takes no more, lets what runs finish for `drainMs`, then stops everything, the database last. */
  stop(): Promise<void>;
}

/** Starts the roles that the configuration names. Throws `StartFailure` with words for whoever started it. */
export const startServer = async (config: ServerConfig, logger: Logger): Promise<RunningServer> => {
  const stopping = new AbortController();
  const started = await startServices(config, logger, stopping.signal);
  let app: NestFastifyApplication | null = null;
  try {
    app = await createApp(started.services);
    await listen(app, config);
    const running = app;
    const { store, directory } = started.services;
    await recordStart(started.services, programVersion());
    // The last step that may fail: a key that was made by a start that then failed would never have been shown.
    const operatorKey = await ensureOperatorKey(store, directory, config.operatorKey);
    const { instance, sql } = started.services;
    const stopHeartbeat = startHeartbeat({ store, sql, logger, instance, everyMs: config.heartbeatMs });
    return {
      url: addressOf(running),
      operatorKey,
      stop: async () => {
        started.services.readiness.stop();
        stopping.abort();
        await stopHeartbeat();
        await drain(running, config.drainMs);
        await started.stop();
      },
    };
  } catch (error) {
    await app?.close();
    await started.stop();
    throw error;
  }
};

/** The Nest application, not yet listening. */
export const createApp = async (services: AppServices): Promise<NestFastifyApplication> => {
  const adapter = createHttpAdapter(services.logger, services.metrics, services.keyRing);
  const app = await NestFactory.create<NestFastifyApplication>(AppModule.with(services), adapter, {
    bodyParser: false,
    logger: nestLogger(services.logger),
    abortOnError: false,
  });
  documentApi(app);
  await app.init();
  return app;
};

const listen = async (app: NestFastifyApplication, { host, port }: ServerConfig): Promise<void> => {
  try {
    await app.listen(port, host);
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === 'EADDRINUSE') {
      throw new StartFailure(
        `Port ${port} on ${host} is in use by another program. Stop that one, or set PORT to another.`,
      );
    }
    if (code === 'EACCES')
      throw new StartFailure(`This user may not listen on port ${port}. Set PORT to one above 1023.`);
    if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
      throw new StartFailure(`HOST is ${host}, which is no address of this machine (${code}).`);
    }
    throw error;
  }
};

const addressOf = (app: NestFastifyApplication): string => {
  const address = app.getHttpServer().address();
  if (typeof address !== 'object' || address === null) throw new Error('listens on no port');
  const host = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return `http://${host}:${address.port}`;
};

/** Closes; what still runs after its time is cut off, so that a stop always ends. */
const drain = async (app: NestFastifyApplication, patienceMs: number): Promise<void> => {
  const cut = setTimeout(() => app.getHttpServer().closeAllConnections(), patienceMs);
  try {
    await app.close();
  } finally {
    clearTimeout(cut);
  }
};
