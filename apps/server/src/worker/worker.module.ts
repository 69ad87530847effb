import { Module } from '@nestjs/common';
import { CircuitBreaker } from './circuit-breaker.js';
import { CronWatch } from './cron-watch.js';
import { OpenInvocations } from './open-invocations.js';
import { ReadModelFollowers } from './read-model-followers.js';
import { Sealer } from './sealer.js';

/** What follows the log. */
@Module({ providers: [ReadModelFollowers, CircuitBreaker, OpenInvocations, CronWatch, Sealer] })
export class WorkerModule {}
