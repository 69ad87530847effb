import { Module } from '@nestjs/common';
import { HookFiringModule } from '../../gateway/hook-firing.module.js';
import { AuditModule } from '../audit/audit.module.js';
import { ActivePluginsModule } from './active-plugins.module.js';
import { ChainInForceRoute } from './chain-in-force.js';
import { ChangePluginHandler, ChangePluginRoute } from './change-plugin.js';
import { InstallScan } from './install-scan.js';
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
import { SourceLoader } from './source-loader.js';
import { TogglePluginRoute } from './toggle-plugin.js';
import { TryPluginHandler, TryPluginRoute } from './try-plugin.js';
import { UninstallPluginHandler, UninstallPluginRoute } from './uninstall-plugin.js';

/** Everything an administrator does with plugins. */
@Module({
  imports: [ActivePluginsModule, HookFiringModule, AuditModule],
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
    InstallScan,
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
