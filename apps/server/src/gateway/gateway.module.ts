import { Module } from '@nestjs/common';
import { nobodyServes } from '#firing';
import { ActivePluginsModule } from '../control/plugins/plugins.module.js';
import { Answers } from './answers.js';
import { FireHookHandler } from './fire-hook.js';
import { FiringController } from './firing.controller.js';
import { HOST_CALLS } from './gateway-tools.js';
import { FireBatchHandler, FireBatchRoute } from './fire-batch.js';
import { ReportEffectHandler, ReportEffectRoute } from './report-effect.js';
import { Turns } from './turns.js';

/** Fires hooks: the command, its routes, and what a chain's host calls reach. */
@Module({
  imports: [ActivePluginsModule],
  controllers: [FireBatchRoute, FiringController, ReportEffectRoute],
  providers: [
    Answers,
    Turns,
    FireHookHandler,
    FireBatchHandler,
    ReportEffectHandler,
    { provide: HOST_CALLS, useValue: nobodyServes },
  ],
})
export class GatewayModule {}
