import { Injectable } from '@nestjs/common';
import type { Dialect, DialectRules } from '#dialects';
import { AccountDirectory } from './account-directory.js';
import type { HaltFacts } from './directory-state.js';
import type { Settings } from './settings.js';
import { defaultSettings } from './settings.js';

/**
 * What an account's settings and halts say to whoever fires hooks or changes plugins. Answers from memory: a change is
 * in force at once on the replica that took it, within a second on the others.
 */
@Injectable()
export class AccountRules {
  constructor(private readonly directory: AccountDirectory) {}

  settings(account: string): Settings {
    return this.directory.account(account)?.settings ?? defaultSettings;
  }

  /** How the account's plugins are halted now; null: they are not. */
  halted(account: string): 'open' | 'closed' | null {
    const halt = this.directory.account(account)?.halt ?? null;
    return halt !== null && isInForce(halt, new Date()) ? halt.failureMode : null;
  }

  /** Which of a dialect's profiles the account follows; null: the dialect has none. */
  profile(account: string, dialect: Dialect['name']): string | null {
    const { profiles } = this.settings(account);
    return dialect === 'middleware' ? null : profiles[dialect];
  }

  /** What the account says of how a dialect is followed, and of one plugin's hooks. */
  dialectRules(account: string, dialect: Dialect['name'], pluginId: string): DialectRules {
    if (dialect === 'middleware') return {};
    const { profiles, openclawHookGates } = this.settings(account);
    if (dialect === 'kohaku') return { profile: profiles.kohaku };
    const gates = Object.hasOwn(openclawHookGates, pluginId) ? openclawHookGates[pluginId] : undefined;
    return { profile: profiles.openclaw, gates: gates ?? {} };
  }

  /** Time limit of handlers whose plugin names none, ms; null: the dialect's own. */
  timeoutMs(account: string, dialect: Dialect['name']): number | null {
    return this.settings(account).timeouts[dialect] ?? null;
  }
}

/** A halt ends by itself when its time is up. */
export const isInForce = (halt: HaltFacts, now: Date): boolean => halt.until === null || new Date(halt.until) > now;
