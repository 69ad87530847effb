import { Module } from '@nestjs/common';
import { ActivePluginsModule } from '../control/plugins/active-plugins.module.js';
import { Approvals } from './approvals.js';
import { FinalizeRetries } from './finalize-retries.js';
import { HOST_CALLS } from './gateway-tools.js';
import { HookFiring } from './hook-firing.js';
import { HostLink } from './host-link/host-link.js';
import { ServedCalls } from './host-members/served-calls.js';
import { RunningInvocations } from './running-invocations.js';
import { SessionCleanup } from './session-cleanup.js';
import { SessionExtensions } from './session-extensions.js';
import { SessionInjections } from './session-injections.js';
import { Turns } from './turns.js';

/** Runs hook chains: for the gateway, and for an administrator's installs, which plugins may stop. */
@Module({
  imports: [ActivePluginsModule],
  providers: [
    Approvals,
    FinalizeRetries,
    HookFiring,
    RunningInvocations,
    SessionCleanup,
    SessionExtensions,
    SessionInjections,
    Turns,
    HostLink,
    ServedCalls,
    { provide: HOST_CALLS, useExisting: ServedCalls },
  ],
  exports: [
    ActivePluginsModule,
    Approvals,
    FinalizeRetries,
    HookFiring,
    RunningInvocations,
    SessionCleanup,
    SessionExtensions,
    SessionInjections,
    Turns,
    HOST_CALLS,
    HostLink,
  ],
})
export class HookFiringModule {}
