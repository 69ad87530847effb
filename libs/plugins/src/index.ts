export type { ChainInForce, ChainPlace, PluginSet } from './plugin-set.js';
export { chainEntry, chainFor, evolveSet, foldSet, inOrder, noPlugins, pluginChangeTypes } from './plugin-set.js';
