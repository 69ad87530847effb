export type { Json, JsonObject } from './json.js';
export type { Actor, EventFields, EventType, NewEvent, RecordedEvent, Sealed } from './event.js';
export { eventTypes, isEventType } from './event.js';
export { canonicalJson, digestOf, leafHash, storedBytes } from './canonical.js';
export { parseJson } from './parse.js';
export type { Upcaster, Upcasters } from './versions.js';
export { readEvent, schemaVersionOf } from './versions.js';
export type {
  ChainEntry,
  EffectReported,
  HandlerNotRun,
  HandlerRan,
  HostCall,
  InvocationClosed,
  InvocationLost,
  InvocationMissed,
  InvocationOpened,
  StoredWarning,
} from './invocation-events.js';
export { asData, invocationStream, missedStream } from './invocation-events.js';
export type {
  ApprovalCancelled,
  ApprovalDecided,
  ApprovalDecision,
  ApprovalRequested,
  CancelCause,
  GrantCreated,
  GrantScope,
  InvocationHeld,
} from './approval-events.js';
export { approvalStream, grantStream } from './approval-events.js';
export type {
  CleanupCall,
  CleanupCause,
  ExtensionCleaned,
  ExtensionCleanupCalled,
  ExtensionPatched,
  InjectionDrained,
  InjectionDropped,
  InjectionExpired,
  QueuedInjection,
} from './session-events.js';
export { extensionStream, injectionStream, pluginCleanupStream } from './session-events.js';
export type { LoadFindings, PluginChanged, PluginOrderChanged, PluginSnapshot, StoredCode } from './plugin-events.js';
export { pluginOrderStream, pluginStream } from './plugin-events.js';
export type { EventSchema } from './schemas/event-schemas.js';
export { eventSchemas } from './schemas/event-schemas.js';
