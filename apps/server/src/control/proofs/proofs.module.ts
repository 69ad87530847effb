import type { DynamicModule } from '@nestjs/common';
import { Module } from '@nestjs/common';
import { AuditModule } from '../audit/audit.module.js';
import { ListLogKeysRoute } from './list-log-keys.js';
import { LogKeys } from './log-keys.js';
import { ProofsController } from './proofs.controller.js';
import { RotateLogKeyHandler, RotateLogKeyRoute } from './rotate-log-key.js';

/** Checkpoints, proofs, and the log's keys, which the sealer needs too. */
@Module({})
export class ProofsModule {
  /** `control` brings the routes; every role has the keys. */
  static with(keys: LogKeys, routes: 'routes' | 'views'): DynamicModule {
    const known = { provide: LogKeys, useValue: keys };
    return {
      module: ProofsModule,
      global: true,
      imports: routes === 'routes' ? [AuditModule] : [],
      controllers: routes === 'routes' ? [ProofsController, ListLogKeysRoute, RotateLogKeyRoute] : [],
      providers: routes === 'routes' ? [known, RotateLogKeyHandler] : [known],
      exports: [LogKeys],
    };
  }
}
