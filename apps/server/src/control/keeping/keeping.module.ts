import { Module } from '@nestjs/common';
import { AuditModule } from '../audit/audit.module.js';
import { ErasureRoutes, EraseScopeHandler } from './erasures.js';
import { ErasureWork } from './erasure-work.js';
import { HoldRoutes, PlaceHoldHandler, ReleaseHoldHandler } from './holds.js';
import { KeepingLog } from './keeping-log.js';
import { PurgeWork } from './purge-work.js';
import { PurgeAccountHandler, PurgeRoutes } from './purges.js';
import { RetentionRoutes, SetRetentionHandler } from './retention.js';

/** What is done about what is kept, for the routes and for the workers. */
@Module({ providers: [KeepingLog, ErasureWork, PurgeWork], exports: [KeepingLog, ErasureWork, PurgeWork] })
export class KeepingWorkModule {}

/** Erasure, legal holds, retention and purging. */
@Module({
  imports: [KeepingWorkModule, AuditModule],
  controllers: [ErasureRoutes, HoldRoutes, RetentionRoutes, PurgeRoutes],
  providers: [EraseScopeHandler, PlaceHoldHandler, ReleaseHoldHandler, SetRetentionHandler, PurgeAccountHandler],
})
export class KeepingModule {}
