import { Module } from '@nestjs/common';
import { ReadModelFollowers } from './read-model-followers.js';

/** What follows the log. */
@Module({ providers: [ReadModelFollowers] })
export class WorkerModule {}
