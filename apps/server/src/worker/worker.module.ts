import { Module } from '@nestjs/common';
import { CircuitBreaker } from './circuit-breaker.js';
import { CronWatch } from './cron-watch.js';
import { KafkaRelay } from './kafka-relay.js';
import { OpenInvocations } from './open-invocations.js';
import { ExportMaker } from '../control/exports/export-maker.js';
import { KeepingWorkModule } from '../control/keeping/keeping.module.js';
import { Purger } from './purger.js';
import { PurgerFollower } from './purger-follower.js';
import { ReadModelFollowers } from './read-model-followers.js';
import { Sealer } from './sealer.js';

/** What follows the log. */
@Module({
  imports: [KeepingWorkModule],
  providers: [
    Purger,
    PurgerFollower,
    ReadModelFollowers,
    CircuitBreaker,
    OpenInvocations,
    CronWatch,
    Sealer,
    KafkaRelay,
    ExportMaker,
  ],
})
export class WorkerModule {}
