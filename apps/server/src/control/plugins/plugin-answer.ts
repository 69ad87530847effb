import type { FastifyReply } from 'fastify';
import { etagOf } from '#platform';
import type { PluginSnapshot } from '#record';
import type { InstallScanned } from './install-scan.js';

/** What a command on one plugin leaves: the state in force. */
export interface PluginAnswer {
  readonly plugin: PluginSnapshot;
  /** What `before_install` said of the code that came in; absent where nobody was asked. */
  readonly scan?: InstallScanned;
}

/** A revision's entity tag: revisions never come back, so neither does a tag. */
export const pluginEtag = (plugin: Pick<PluginSnapshot, 'revision'>): string => etagOf(plugin.revision);

/** Sets the headers that go with a plugin's state. */
export const tagReply = (reply: FastifyReply, plugin: Pick<PluginSnapshot, 'revision'>): void => {
  reply.header('etag', pluginEtag(plugin));
};

/** Path of a plugin, for `Location`. */
export const pluginPath = (account: string, id: string): string =>
  `/v1/accounts/${encodeURIComponent(account)}/plugins/${encodeURIComponent(id)}`;
