export type { Ask, Cancellation, Decision, Link, Said, Step, Verdict, Warning } from './chain.js';
export { pluginFailed } from './chain.js';
export type { Contribution, FieldRule, FieldRules } from './fold.js';
export { foldFields, own } from './fold.js';
export type { Condition, MergeMode, Mode, Point } from './point.js';
export { inMode, runChain } from './run-chain.js';
export type { Stage } from './run-stages.js';
export { runStages } from './run-stages.js';
export { sameJson } from './same.js';
