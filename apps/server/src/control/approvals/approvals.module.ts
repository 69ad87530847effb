import { Module } from '@nestjs/common';
import { AuditModule } from '../audit/audit.module.js';
import { DecideApprovalHandler, DecideApprovalRoute } from './decide-approval.js';
import { GrantRoutes, RevokeGrantHandler } from './grants.js';
import { ListApprovalsRoutes } from './list-approvals.js';

/** What people are asked, and what they answered. */
@Module({
  imports: [AuditModule],
  controllers: [ListApprovalsRoutes, DecideApprovalRoute, GrantRoutes],
  providers: [DecideApprovalHandler, RevokeGrantHandler],
})
export class ApprovalsModule {}
