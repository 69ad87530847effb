import { Module } from '@nestjs/common';
import { CircuitBreaker } from './circuit-breaker.js';
import { ReadModelFollowers } from './read-model-followers.js';

/** What follows the log. */
@Module({ providers: [ReadModelFollowers, CircuitBreaker] })
export class WorkerModule {}
