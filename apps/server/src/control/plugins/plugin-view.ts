import { Inject, Injectable } from '@nestjs/common';
import { dialectOf } from '#dialects';
import type { StoredEvent } from '#event-store';
import { SEALING, show, showWithin, type Caller, type Shown } from '#platform';
import { asData, type Actor, type Json, type PluginSnapshot, type RecordedEvent } from '#record';
import type { Sealing } from '#sealing';
import { AccountRules } from '../accounts/account-rules.js';

/** A plugin as the API shows it. */
export interface PluginView {
  readonly id: string;
  readonly name: string;
  readonly dialect: PluginSnapshot['dialect'];
  readonly language: PluginSnapshot['code']['language'];
  readonly version: string;
  readonly revision: number;
  readonly enabled: boolean;
  readonly priority: number | null;
  readonly failureMode: PluginSnapshot['failureMode'];
  readonly mode: PluginSnapshot['mode'];
  readonly isolation: PluginSnapshot['isolation'];
  readonly timeouts: PluginSnapshot['timeouts'];
  readonly permissions: readonly string[];
  readonly requestedPermissions: readonly string[];
  readonly hooks: readonly string[];
  readonly gated: readonly string[];
  readonly warnings: PluginSnapshot['findings']['warnings'];
  readonly config: Shown;
  readonly configDigest: string;
  readonly configSchema: Shown;
  readonly sourceDigest: string;
  readonly compiledDigest: string;
  readonly compiler: string | null;
}

/** One event of a plugin's or an account's history. */
export interface ChangeView {
  readonly position: string;
  readonly type: string;
  readonly recordedAt: string;
  readonly actor: Actor | null;
  readonly pluginId: string | null;
  readonly version: string | null;
  readonly revision: number | null;
  readonly changed: readonly string[];
  readonly reason: Shown;
  readonly weakensEnforcement: boolean;
  readonly before: unknown;
  readonly after: unknown;
  readonly toRevision?: number;
}

/** Content that was opened, as a key without content sees it; null says that there is none. */
export const hidden = (value: Json): Shown =>
  value === null ? null : { hidden: true, size: Buffer.byteLength(JSON.stringify(value)) };

/** Shows plugins and their changes, content as the caller's key may see it. */
@Injectable()
export class PluginViews {
  constructor(
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(AccountRules) private readonly rules: AccountRules,
  ) {}

  /** By the rules in force now, whatever they were when it was loaded. */
  private gated(account: string, { id, dialect, findings }: PluginSnapshot): readonly string[] {
    const rules = this.rules.dialectRules(account, dialect, id);
    return dialectOf(dialect)?.gated?.(findings.registrations, rules) ?? findings.gated;
  }

  async plugin(account: string, caller: Pick<Caller, 'content'>, plugin: PluginSnapshot): Promise<PluginView> {
    const [config, configSchema] = await Promise.all([
      show(this.sealing, caller, account, plugin.config),
      show(this.sealing, caller, account, plugin.configSchema),
    ]);
    const { findings, code } = plugin;
    return {
      id: plugin.id,
      name: plugin.name,
      dialect: plugin.dialect,
      language: code.language,
      version: plugin.version,
      revision: plugin.revision,
      enabled: plugin.enabled,
      priority: plugin.priority,
      failureMode: plugin.failureMode,
      mode: plugin.mode,
      isolation: plugin.isolation,
      timeouts: plugin.timeouts,
      permissions: plugin.permissions,
      requestedPermissions: findings.requestedPermissions,
      hooks: findings.hooks,
      gated: this.gated(account, plugin),
      warnings: findings.warnings,
      config,
      configDigest: plugin.configDigest,
      configSchema,
      sourceDigest: code.sourceDigest,
      compiledDigest: code.compiledDigest,
      compiler: code.compiler,
    };
  }

  /** Who, on whose behalf, when, why, before, after; whatever the type of the event. */
  async change(
    account: string,
    caller: Pick<Caller, 'content'>,
    { event, position }: StoredEvent,
  ): Promise<ChangeView> {
    const { before, after, reason, changed, weakensEnforcement, toRevision, ...rest } = event.data;
    const [shownBefore, shownAfter, shownReason] = await Promise.all([
      this.side(account, caller, event, before),
      // Types of other streams say what happened in words of their own: all of it is their "after".
      this.side(account, caller, event, after ?? (before === undefined && Object.keys(rest).length > 0 ? rest : null)),
      showWithin(this.sealing, caller, account, reason ?? null),
    ]);
    return {
      position: String(position),
      type: event.type,
      recordedAt: event.recordedAt,
      actor: event.actor ?? null,
      pluginId: event.pluginId ?? null,
      version: event.pluginVersion ?? null,
      revision: event.pluginRevision ?? null,
      changed: Array.isArray(changed) ? (changed as readonly string[]) : [],
      reason: shownReason,
      weakensEnforcement: weakensEnforcement === true,
      before: shownBefore,
      after: shownAfter,
      ...(typeof toRevision === 'number' ? { toRevision } : {}),
    };
  }

  private async side(
    account: string,
    caller: Pick<Caller, 'content'>,
    event: RecordedEvent,
    value: Json | undefined,
  ): Promise<unknown> {
    if (value === undefined || value === null) return null;
    return isSnapshot(value)
      ? this.plugin(account, caller, value)
      : showWithin(this.sealing, caller, account, withoutSecrets(event, value));
  }
}

const isSnapshot = (value: Json): value is Json & PluginSnapshot =>
  typeof value === 'object' && value !== null && 'configDigest' in value && 'code' in value;

/** A key's hash says nothing to a reader and is a thing to guess against: it is not shown. */
const withoutSecrets = (event: RecordedEvent, value: Json): Json => {
  if (event.type !== 'key.created' || typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return asData(Object.fromEntries(Object.entries(value).filter(([key]) => key !== 'hash')));
};
