export type {
  AnswerFacts,
  Arranged,
  CheckCall,
  Dialect,
  DialectRules,
  Fault,
  HookEntry,
  HostView,
  LoadReport,
  Opening,
  TurnQueue,
} from './dialect.js';
export { checkCall, isId, memberNames, refusals } from './middleware/host-calls.js';
export type { Refusal } from './middleware/host-calls.js';
export { catalogue as middlewareCatalogue, firesHook } from './middleware/catalogue.js';
export type { ContextField, MiddlewareHook } from './middleware/catalogue.js';
export { middleware } from './middleware/middleware.js';
export { dialectNames, dialectOf } from './registry.js';
export { compile, compilerName } from './source/compile.js';
export type { Compiled, SourceText } from './source/compile.js';
export { derivePermissions, knownPermissions } from './source/permissions.js';
export type { Case, CasePlugin, ScriptedHost, SeenWarning } from './conformance/case-file.js';
export { readCaseFile } from './conformance/case-file.js';
export type { Observed } from './conformance/compare.js';
export type { CaseDriver, CaseResult } from './conformance/run-cases.js';
export { checkContexts, reportOf, runCases } from './conformance/run-cases.js';
export { approvalLimits, permits, readApproval, resolutionOf } from './openclaw/approvals.js';
export type {
  ApprovalEnd,
  ApprovalMode,
  ApprovalResolution,
  ApprovalTerms,
  DialectApprovals,
  GateOutcome,
  HeldCall,
  ReadApproval,
} from './held-call.js';
export { approvalModes } from './held-call.js';
export { blockMessage } from './openclaw/block-message.js';
export { catalogue as openclawCatalogue, contexts as openclawContexts } from './openclaw/catalogue.js';
export type { OpenClawHook } from './openclaw/catalogue.js';
export { capDetails } from './openclaw/details-cap.js';
export { filterExecEnv } from './openclaw/exec-env.js';
export { gateAfter, gateOf, gateUnasked } from './openclaw/gate.js';
export type { Gate } from './openclaw/gate.js';
export { injectedContext, readInjection } from './openclaw/injections.js';
export type { Injection, InjectionAsked } from './openclaw/injections.js';
export { fitsJsonLimits } from './openclaw/json-limits.js';
export { extensionsOf, lifecyclesOf } from './openclaw/session-extensions.js';
export type { OwnExtension, OwnLifecycle } from './openclaw/session-extensions.js';
export { withoutPrompts } from './openclaw/legacy-strip.js';
export { failureText, logLevelOf, openclaw, openclawHooks, openclawOf, runnerResult } from './openclaw/openclaw.js';
export { profiles as openclawProfiles } from './openclaw/profiles.js';
export { extensionFault, judgeHook, operatorBounds, policyFault, timeoutFor } from './openclaw/registration.js';
export type { ExtensionClaim, HookGates, OperatorTimeouts, Origin } from './openclaw/registration.js';
export type {
  CaseApproval,
  CaseHandler,
  CasePolicy,
  CaseVersion,
  OpenClawCase,
  OpenClawDriver,
  OpenClawResult,
  OpenClawSeen,
} from './conformance/openclaw-cases.js';
export { isKohakuFile, readKohakuFile, runKohakuCases } from './conformance/kohaku-cases.js';
export type { KohakuCase, KohakuCasePlugin, KohakuDriver, KohakuProfile } from './conformance/kohaku-cases.js';
export { catalogue as kohakuCatalogue } from './kohaku/catalogue.js';
export type { KohakuHook } from './kohaku/catalogue.js';
export { kohakuOf } from './kohaku/kohaku.js';
export { isOpenClawFile, readOpenClawFile, runOpenClawCases } from './conformance/openclaw-cases.js';
