import { Module } from '@nestjs/common';
import { RecordReads } from '../control/audit/record-reads.js';
import { AbortInvocationHandler, AbortInvocationRoute } from './abort-invocation.js';
import { Answers } from './answers.js';
import { ApprovalWatch } from './approval-watch.js';
import { Clears } from './clears.js';
import { CompleteClearHandler, CompleteClearRoute } from './clears-completion.js';
import { StartClearHandler, StartClearRoute } from './clears-start.js';
import { CompleteRunHandler, CompleteRunRoute } from './cron-completion.js';
import { DeclareJobHandler, DeclareJobRoute } from './cron-declaration.js';
import { RenewLeaseHandler, RenewLeaseRoutes } from './cron-lease.js';
import { TakeSlotHandler, TakeSlotRoute } from './cron-slot.js';
import { CronStreams } from './cron-streams.js';
import { FireHookHandler } from './fire-hook.js';
import { FiringController } from './firing.controller.js';
import { HeldInvocations } from './held-invocations.js';
import { HookFiringModule } from './hook-firing.module.js';
import { HostLinkRoute } from './host-link/host-link.controller.js';
import { LinkDoor } from './host-link/link-door.js';
import { InvocationEnds } from './invocation-ends.js';
import { FireBatchHandler, FireBatchRoute } from './fire-batch.js';
import { ReportEffectHandler, ReportEffectRoute } from './report-effect.js';
import { ReportUnreachableHandler, ReportUnreachableRoute } from './report-unreachable.js';
import { Recovery } from './recovery.js';
import { CleanupWatch } from './cleanup-watch.js';
import { DrainInjectionsHandler, DrainInjectionsRoute } from './drain-injections.js';
import { EnqueueInjectionHandler, EnqueueInjectionRoute } from './enqueue-injection.js';
import { PatchExtensionHandler, SessionExtensionsRoutes } from './patch-extension.js';

/** Fires hooks: the command, its routes, and what a chain's host calls reach. */
@Module({
  imports: [HookFiringModule],
  controllers: [
    FireBatchRoute,
    FiringController,
    ReportEffectRoute,
    ReportUnreachableRoute,
    AbortInvocationRoute,
    EnqueueInjectionRoute,
    DrainInjectionsRoute,
    SessionExtensionsRoutes,
    StartClearRoute,
    CompleteClearRoute,
    TakeSlotRoute,
    RenewLeaseRoutes,
    CompleteRunRoute,
    DeclareJobRoute,
    HostLinkRoute,
  ],
  providers: [
    Answers,
    InvocationEnds,
    HeldInvocations,
    ApprovalWatch,
    AbortInvocationHandler,
    Recovery,
    CleanupWatch,
    EnqueueInjectionHandler,
    DrainInjectionsHandler,
    PatchExtensionHandler,
    RecordReads,
    FireHookHandler,
    FireBatchHandler,
    ReportEffectHandler,
    ReportUnreachableHandler,
    Clears,
    StartClearHandler,
    CompleteClearHandler,
    CronStreams,
    TakeSlotHandler,
    RenewLeaseHandler,
    CompleteRunHandler,
    DeclareJobHandler,
    LinkDoor,
  ],
})
export class GatewayModule {}
