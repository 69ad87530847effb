import { hkdfSync } from 'node:crypto';
import { Module } from '@nestjs/common';
import { nobodyServes } from '#firing';
import { MASTER_KEY } from '#platform';
import { AccountsModule } from '../control/accounts/accounts.module.js';
import { PluginsModule } from '../control/plugins/plugins.module.js';
import { Answers } from './answers.js';
import { FireHookHandler } from './fire-hook.js';
import { FiringController } from './firing.controller.js';
import { HOST_CALLS, TOKEN_KEY } from './gateway-tools.js';
import { ReportEffectHandler, ReportEffectRoute } from './report-effect.js';

/** Fires hooks: the command, its routes, and what a chain's host calls reach. */
@Module({
  imports: [PluginsModule, AccountsModule],
  controllers: [FiringController, ReportEffectRoute],
  providers: [
    Answers,
    FireHookHandler,
    ReportEffectHandler,
    { provide: HOST_CALLS, useValue: nobodyServes },
    {
      provide: TOKEN_KEY,
      inject: [MASTER_KEY],
      useFactory: (masterKey: Uint8Array) =>
        new Uint8Array(hkdfSync('sha256', masterKey, new Uint8Array(), 'hookledger invocation tokens', 32)),
    },
  ],
})
export class GatewayModule {}
