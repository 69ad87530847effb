export type { ChainInForce, ChainPlace, PluginSet } from './plugin-set.js';
export { chainEntry, chainFor, evolveSet, foldSet, inOrder, noPlugins, pluginChangeTypes } from './plugin-set.js';
export type {
  Circumstances,
  Decided,
  PluginCommand,
  PluginHistory,
  PluginPatch,
  PluginState,
  Refusal,
  SealedConfig,
} from './decider.js';
export {
  decide,
  decideOrder,
  differences,
  evolve,
  foldPlugin,
  neverInstalled,
  permissionsOfVersion,
} from './decider.js';
export type { DialectFacts, PluginFault } from './dialect-facts.js';
export { canCancel, escapePointer, timeoutOf } from './dialect-facts.js';
export { orderWeakens, weakens } from './weakening.js';
export type { PluginSource } from './digests.js';
export { configDigest, maxSourceBytes, sourceBytes, sourceDigest, sourceJson } from './digests.js';
export type { Candidate, PolicyVerdict } from './install-policy.js';
export { isInstallPolicy, judgeInstall } from './install-policy.js';
