import { Inject, Module, type OnModuleDestroy } from '@nestjs/common';
import { dialectOf, type Dialect } from '#dialects';
import type { EventStore } from '#event-store';
import { errorFacts, EVENT_STORE, LOGGER, SEALING, type Logger } from '#platform';
import type { PluginSnapshot } from '#record';
import type { Sealing } from '#sealing';
import { ActivePlugins } from './active-plugins.js';
import { FollowedPlugins } from './followed-plugins.js';
import { SecretValues } from './secrets.js';

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
