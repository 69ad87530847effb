import type { DynamicModule, Provider } from '@nestjs/common';
import { Module } from '@nestjs/common';
import { CommandBus, CqrsModule } from '@nestjs/cqrs';
import { PlatformCommandBus } from './command-bus.js';

/** Nest's CQRS module with the platform's bus in the place of its own. */
@Module({})
export class PlatformCqrsModule extends CqrsModule {
  /** `services` are what the bus needs, where no global module has them. */
  static withPlatformBus(services: readonly Provider[] = []): DynamicModule {
    const { providers = [] } = CqrsModule.forRoot();
    return {
      module: PlatformCqrsModule,
      global: true,
      providers: [...providers, ...services, { provide: CommandBus, useClass: PlatformCommandBus }],
      exports: [CommandBus],
    };
  }
}
