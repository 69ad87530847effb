export type { Approval, ApprovalEnding, DecisionRefusal, GivenDecision } from './approval.js';
export {
  approvalEndings,
  decideApproval,
  decideApprovalCancel,
  decideApprovalTimeout,
  decideTold,
  evolveApproval,
  unknownApproval,
} from './approval.js';
export type { Grant } from './grant.js';
export { decideGrant, decideRevoke, evolveGrant, grantIdOf, grantUsed, unknownGrant } from './grant.js';
