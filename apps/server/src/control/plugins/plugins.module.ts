import { Module, type OnModuleDestroy, Inject } from '@nestjs/common';
import { dialectOf, type Dialect } from '#dialects';
import type { EventStore } from '#event-store';
import { errorFacts, EVENT_STORE, LOGGER, SEALING, type Logger } from '#platform';
import type { PluginSnapshot } from '#record';
import type { Sealing } from '#sealing';
import { AuditModule } from '../audit/audit.module.js';
import { ActivePlugins } from './active-plugins.js';
import { ChainInForceRoute } from './chain-in-force.js';
import { ChangePluginHandler, ChangePluginRoute } from './change-plugin.js';
import { FollowedPlugins } from './followed-plugins.js';
import { InstallPluginHandler, InstallPluginRoute } from './install-plugin.js';
import { AddVersionHandler, AddVersionRoute } from './new-version.js';
import { PluginDesk } from './one-plugin.js';
import { PluginCommands } from './plugin-commands.js';
import { PluginCondition } from './plugin-condition.js';
import { PluginHistoryRoute } from './plugin-history.js';
import { PluginLog } from './plugin-log.js';
import { PluginLogsRoute } from './plugin-logs.js';
import { PluginOrderRoute, ReorderPluginsHandler } from './plugin-order.js';
import { PluginViews } from './plugin-view.js';
import { ReadPluginsRoute } from './read-plugins.js';
import { ReplacePluginsHandler, ReplacePluginsRoute } from './replace-plugins.js';
import { RollBackPluginHandler, RollBackPluginRoute } from './roll-back-plugin.js';
import { SecretValues } from './secrets.js';
import { SourceLoader } from './source-loader.js';
import { TogglePluginRoute } from './toggle-plugin.js';
import { TryPluginHandler, TryPluginRoute } from './try-plugin.js';
import { UninstallPluginHandler, UninstallPluginRoute } from './uninstall-plugin.js';

const runnableDialect = (name: PluginSnapshot['dialect']): Dialect => {
  const dialect = dialectOf(name);
  if (dialect === undefined) throw new Error(`this program does not run the dialect ${name}`);
  return dialect;
};

/** The plugins in force, for whoever runs chains. */
@Module({
  providers: [
    {
      provide: ActivePlugins,
      inject: [EVENT_STORE, SEALING, SecretValues, LOGGER],
      useFactory: (store: EventStore, sealing: Sealing, secrets: SecretValues, logger: Logger) =>
        new FollowedPlugins({
          store,
          sealing,
          secrets,
          dialectOf: runnableDialect,
          onFault: (error) => {
            logger.warn(errorFacts(error), 'changes of plugins could not be looked for; the next look tries again');
          },
        }),
    },
  ],
  exports: [ActivePlugins],
})
export class ActivePluginsModule implements OnModuleDestroy {
  constructor(@Inject(ActivePlugins) private readonly active: FollowedPlugins) {}

  onModuleDestroy(): Promise<void> {
    return this.active.close();
  }
}

/** Everything an administrator does with plugins. */
@Module({
  imports: [ActivePluginsModule, AuditModule],
  controllers: [
    InstallPluginRoute,
    ChangePluginRoute,
    AddVersionRoute,
    RollBackPluginRoute,
    UninstallPluginRoute,
    TogglePluginRoute,
    PluginOrderRoute,
    PluginHistoryRoute,
    ChainInForceRoute,
    ReadPluginsRoute,
    PluginLogsRoute,
    TryPluginRoute,
    ReplacePluginsRoute,
  ],
  providers: [
    PluginLog,
    PluginCommands,
    PluginViews,
    PluginDesk,
    SourceLoader,
    InstallPluginHandler,
    ChangePluginHandler,
    AddVersionHandler,
    RollBackPluginHandler,
    UninstallPluginHandler,
    ReorderPluginsHandler,
    TryPluginHandler,
    ReplacePluginsHandler,
    PluginCondition,
  ],
  exports: [ActivePluginsModule],
})
export class PluginsModule {}
