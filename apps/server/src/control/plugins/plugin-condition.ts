import { Inject, Injectable } from '@nestjs/common';
import { openReading, pluginHealth, ReadModelMissing, record, type PluginHealth } from '#audit';
import type { EventStore, Sql } from '#event-store';
import { EVENT_STORE, SQL } from '#platform';
import type { PluginSnapshot } from '#record';
import { AccountRules } from '../accounts/account-rules.js';
import { ActivePlugins } from './active-plugins.js';

/** How a plugin does: whether its handlers run, and figures of its latest runs. */
export interface ConditionView {
  readonly running: boolean;
  /** Null while it runs. */
  readonly why: 'disabled' | 'halted' | 'no_hooks' | 'not_loaded' | null;
  /** With `not_loaded`: what is missing, in words. */
  readonly message: string | null;
  /** Figures of the latest runs; null while they are not collected. */
  readonly runs: number | null;
  readonly outcomes: PluginHealth['outcomes'];
  readonly skips: PluginHealth['skips'];
  readonly p50Ms: number | null;
  readonly p95Ms: number | null;
  readonly lastRunAt: string | null;
}

@Injectable()
export class PluginCondition {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SQL) private readonly sql: Sql,
    @Inject(ActivePlugins) private readonly active: ActivePlugins,
    @Inject(AccountRules) private readonly rules: AccountRules,
  ) {}

  async of(account: string, plugin: PluginSnapshot): Promise<ConditionView> {
    const [state, health] = await Promise.all([this.state(account, plugin), this.health(account, plugin.id)]);
    return {
      ...state,
      runs: health?.runs ?? null,
      outcomes: health?.outcomes ?? {},
      skips: health?.skips ?? {},
      p50Ms: health?.p50Ms ?? null,
      p95Ms: health?.p95Ms ?? null,
      lastRunAt: health?.lastRunAt ?? null,
    };
  }

  private async state(
    account: string,
    plugin: PluginSnapshot,
  ): Promise<Pick<ConditionView, 'running' | 'why' | 'message'>> {
    if (!plugin.enabled) return not('disabled');
    if (this.rules.halted(account) !== null) return not('halted');
    if (plugin.findings.hooks.length === 0) return not('no_hooks');
    const active = await this.active.get(account);
    const realm = await active.realmFor(plugin);
    return realm.kind === 'ready' ? { running: true, why: null, message: null } : not('not_loaded', realm.message);
  }

  private async health(account: string, id: string): Promise<PluginHealth | null> {
    try {
      const { table } = await openReading(this.sql, this.store, record, account);
      return await pluginHealth(this.sql, table, account, id);
    } catch (error) {
      // Tables that are being built, or were swapped a moment ago: the plugin is shown all the same.
      if (error instanceof ReadModelMissing || isUndefinedTable(error)) return null;
      throw error;
    }
  }
}

const not = (why: ConditionView['why'], message: string | null = null) => ({ running: false, why, message });

const isUndefinedTable = (error: unknown): boolean =>
  typeof error === 'object' && error !== null && 'code' in error && error.code === '42P01';
