import type { DynamicModule, Provider } from '@nestjs/common';
import { Module } from '@nestjs/common';
import { APP_FILTER, APP_GUARD, APP_PIPE } from '@nestjs/core';
import type { Registry } from 'prom-client';
import type { EventStore, NoticeOptions, Notices, Sql } from '#event-store';
import type { Sealing } from '#sealing';
import type { KeyRing } from './auth.js';
import { AuthGuard } from './auth.js';
import { BodyPipe } from './body-pipe.js';
import type { ServerConfig } from './config.js';
import { Cursors } from './cursor.js';
import { derivedKey } from './derived-key.js';
import type { Logger } from './logger.js';
import { OperatingController } from './operating.controller.js';
import { PlatformCqrsModule } from './platform-cqrs.module.js';
import { ProblemFilter } from './problem-filter.js';
import { Readiness } from './readiness.js';
import {
  CONFIG,
  EVENT_STORE,
  INSTANCE,
  KEY_RING,
  LISTEN,
  LOGGER,
  MASTER_KEY,
  METRICS,
  SANDBOX,
  SEALING,
  SQL,
  STOPPING,
  TOKEN_KEY,
} from './tokens.js';

/** Listens on a channel of the database, on a connection of its own. */
export type Listen = (options: Pick<NoticeOptions, 'channel' | 'onNotice' | 'onListening'>) => Notices;

/** What exists before Nest does: started by `main`, shared by all roles. */
export interface PlatformServices {
  readonly config: ServerConfig;
  readonly logger: Logger;
  readonly metrics: Registry;
  readonly store: EventStore;
  readonly sealing: Sealing;
  readonly sql: Sql;
  /** A `Sandbox`; the platform itself never looks at it. */
  readonly sandbox: unknown;
  readonly keyRing: KeyRing;
  readonly masterKey: Uint8Array;
  readonly readiness: Readiness;
  readonly stopping: AbortSignal;
  readonly listen: Listen;
  /** Names this process. */
  readonly instance: string;
}

/** The shell: the shared services by their tokens, and guard, pipe, filter and bus for every route. */
@Module({})
export class PlatformModule {
  static with(services: PlatformServices): DynamicModule {
    const shared: Provider[] = [
      { provide: CONFIG, useValue: services.config },
      { provide: LOGGER, useValue: services.logger },
      { provide: METRICS, useValue: services.metrics },
      { provide: EVENT_STORE, useValue: services.store },
      { provide: SEALING, useValue: services.sealing },
      { provide: SQL, useValue: services.sql },
      { provide: SANDBOX, useValue: services.sandbox },
      { provide: KEY_RING, useValue: services.keyRing },
      { provide: MASTER_KEY, useValue: services.masterKey },
      { provide: TOKEN_KEY, useFactory: () => derivedKey(services.masterKey, 'hookledger/token/v1') },
      { provide: INSTANCE, useValue: services.instance },
      { provide: LISTEN, useValue: services.listen },
      { provide: STOPPING, useValue: services.stopping },
      { provide: Readiness, useValue: services.readiness },
      { provide: Cursors, useFactory: () => new Cursors(services.masterKey) },
    ];
    return {
      module: PlatformModule,
      global: true,
      imports: [PlatformCqrsModule.withPlatformBus()],
      controllers: [OperatingController],
      providers: [
        ...shared,
        { provide: APP_GUARD, useClass: AuthGuard },
        { provide: APP_PIPE, useClass: BodyPipe },
        { provide: APP_FILTER, useClass: ProblemFilter },
      ],
      exports: shared.map((provider) => (provider as { provide: symbol }).provide),
    };
  }
}
