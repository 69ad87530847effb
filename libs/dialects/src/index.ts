export type { CheckCall, Dialect, Fault, HookEntry, HostView, LoadReport, Opening } from './dialect.js';
export { checkCall, memberNames, refusals } from './middleware/host-calls.js';
export type { Refusal } from './middleware/host-calls.js';
export { middleware } from './middleware/middleware.js';
export { dialectOf } from './registry.js';
export { compile, compilerName } from './source/compile.js';
export type { Compiled, SourceText } from './source/compile.js';
export { derivePermissions, knownPermissions } from './source/permissions.js';
