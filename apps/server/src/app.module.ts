import type { DynamicModule, Type } from '@nestjs/common';
import { Module } from '@nestjs/common';
import type { PlatformServices, ServerRole } from '#platform';
import { PlatformModule } from '#platform';
import type { AccountDirectory } from './control/accounts/account-directory.js';
import { AccountsModule } from './control/accounts/accounts.module.js';
import { ApprovalsModule } from './control/approvals/approvals.module.js';
import { AuditModule } from './control/audit/audit.module.js';
import { AsyncApiRoute } from './control/asyncapi.js';
import { EventSchemasRoute } from './control/event-schemas.js';
import { KeepingModule } from './control/keeping/keeping.module.js';
import type { LogKeys } from './control/proofs/log-keys.js';
import { ProofsModule } from './control/proofs/proofs.module.js';
import { ExportsModule } from './control/exports/exports.module.js';
import { PluginsModule } from './control/plugins/plugins.module.js';
import { GatewayModule } from './gateway/gateway.module.js';
import { WorkerModule } from './worker/worker.module.js';

/** What every role needs, started before Nest. */
export interface AppServices extends PlatformServices {
  readonly directory: AccountDirectory;
  readonly logKeys: LogKeys;
}

/**
 * The modules of each role. A part plugs in by one import and one line here; its providers take the shared services by
 * their tokens (`@Inject(EVENT_STORE)`, …) from the global PlatformModule, and `AccountRules`, `AccountDirectory` and
 * `SecretValues` from the global AccountsModule. Commands need only their handler among the providers: the bus finds it.
 */
const modulesOf: { readonly [R in ServerRole]: readonly Type[] } = {
  gateway: [GatewayModule],
  control: [PluginsModule, AuditModule, ApprovalsModule, KeepingModule, ExportsModule],
  worker: [WorkerModule],
};

/** The program, in the roles that the configuration names. */
@Module({})
export class AppModule {
  static with(services: AppServices): DynamicModule {
    const { roles } = services.config;
    const modules = [...roles].flatMap((role) => modulesOf[role]);
    return {
      module: AppModule,
      controllers: roles.has('control') ? [EventSchemasRoute, AsyncApiRoute] : [],
      imports: [
        PlatformModule.with(services),
        AccountsModule.with(services.directory, roles.has('control') ? 'routes' : 'views'),
        ProofsModule.with(services.logKeys, roles.has('control') ? 'routes' : 'views'),
        // A module that two roles name is there once.
        ...new Set(modules),
      ],
    };
  }
}
