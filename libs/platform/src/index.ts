export type { ActiveClaim, CommandMeta, DoneCommand } from './account-command.js';
export { AccountCommand, AccountCommandHandler } from './account-command.js';
export type { KeyRecord, KeyRing } from './auth.js';
export { admit, Allow, callerOf, CurrentCaller, forbidden, hashKey, noAccount, Public, roleMay } from './auth.js';
export { BodyPipe, Nested, readDto } from './body-pipe.js';
export type { Caller, Role } from './caller.js';
export { actorOf } from './caller.js';
export { PlatformCommandBus } from './command-bus.js';
export { IdempotencyMeta, Meta } from './command-meta.js';
export type { KafkaConfig, KafkaSasl, LogLevel, ServerConfig, ServerRole } from './config.js';
export { readConfig, StartFailure } from './config.js';
export type { CursorPosition } from './cursor.js';
export { Cursors } from './cursor.js';
export { derivedKey } from './derived-key.js';
export { programPassword, programRole, programUrl } from './program-role.js';
export { etagOf, requireMatch } from './etag.js';
export { Absent, AbsentOrNull, IsInstant, IsJsonObject, IsPathName, IsText, IsWireId } from './fields.js';
export { answerOnSocket, createHttpAdapter } from './http.js';
export type { ReadInstant } from './instants.js';
export { formatInstant, readBound, readInstant } from './instants.js';
export { maxBodyBytes, maxDepth, readJsonBody } from './json-body.js';
export type { Logger } from './logger.js';
export { createLogger, errorFacts, nestLogger } from './logger.js';
export { createMetrics } from './metrics.js';
export { Account, accountParam, PathId } from './path.js';
export type { Listen, PlatformServices } from './platform.module.js';
export { PlatformModule } from './platform.module.js';
export type { FieldFault } from './problem.js';
export { escapePointer, headerPointer, pathPointer, Problem, queryPointer } from './problem.js';
export { problemJson, problemOf, ProblemFilter, sendProblem } from './problem-filter.js';
export type { QueryField, QueryOf } from './query.js';
export {
  pagingFields,
  queryFlag,
  queryFreeText,
  queryId,
  queryInt,
  queryMaybeInt,
  queryPosition,
  queryText,
  queryTime,
  queryWord,
  rangeFields,
  readQuery,
  StrictQuery,
} from './query.js';
export type { PartState, ReadinessReport } from './readiness.js';
export { Readiness } from './readiness.js';
export type { PlatformRequest } from './request.js';
export {
  CONFIG,
  EVENT_STORE,
  INSTANCE,
  KEY_RING,
  LISTEN,
  LOGGER,
  MASTER_KEY,
  METRICS,
  SANDBOX,
  SEALING,
  SQL,
  STOPPING,
  TOKEN_KEY,
} from './tokens.js';
export type { Shown } from './visibility.js';
export { show, showAll, showWithin } from './visibility.js';
export { isId, isPathName, maxIdLength } from './wire-text.js';
