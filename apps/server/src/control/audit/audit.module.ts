import { Module } from '@nestjs/common';
import { ClearsController } from './clears.controller.js';
import { CronJobsController, CronRunsController } from './cron-runs.controller.js';
import { EventsController } from './events.controller.js';
import { InvocationsController } from './invocations.controller.js';
import { Readings } from './readings.js';
import { RecordReads } from './record-reads.js';
import { TextSearchSwitch } from './text-search-switch.js';
import { TurnsController } from './turns.controller.js';
import { UsageController } from './usage.controller.js';

/** Reading the record. */
@Module({
  controllers: [
    InvocationsController,
    TurnsController,
    EventsController,
    UsageController,
    ClearsController,
    CronRunsController,
    CronJobsController,
  ],
  providers: [Readings, RecordReads, TextSearchSwitch],
  exports: [Readings, RecordReads],
})
export class AuditModule {}
