import type { DynamicModule } from '@nestjs/common';
import { Module } from '@nestjs/common';
import { SecretValues } from '../plugins/secrets.js';
import { AccountDirectory } from './account-directory.js';
import { AccountRules } from './account-rules.js';
import { ChangeSettingsHandler, SettingsRoutes } from './change-settings.js';
import { CreateAccountHandler, CreateAccountRoute } from './create-account.js';
import { CreateKeyHandler, CreateKeyRoute } from './create-key.js';
import { HaltAccountHandler, HaltRoutes, ResumeAccountHandler } from './halt.js';
import { ListAccountsRoute } from './list-accounts.js';
import { ListKeysRoute } from './list-keys.js';
import { RevokeKeyHandler, RevokeKeyRoute } from './revoke-key.js';
import { SecretRoutes, SetSecretHandler, StoredSecretValues } from './secrets.js';

/** Accounts, their keys, settings, secrets and halts, and what other parts ask of them. */
@Module({})
export class AccountsModule {
  /** `control` brings the routes; every role has the views. */
  static with(directory: AccountDirectory, routes: 'routes' | 'views'): DynamicModule {
    const views = [
      { provide: AccountDirectory, useValue: directory },
      AccountRules,
      { provide: SecretValues, useClass: StoredSecretValues },
    ];
    const handlers = [
      CreateAccountHandler,
      CreateKeyHandler,
      RevokeKeyHandler,
      ChangeSettingsHandler,
      SetSecretHandler,
      HaltAccountHandler,
      ResumeAccountHandler,
    ];
    const controllers = [
      CreateAccountRoute,
      ListAccountsRoute,
      CreateKeyRoute,
      ListKeysRoute,
      RevokeKeyRoute,
      SettingsRoutes,
      SecretRoutes,
      HaltRoutes,
    ];
    return {
      module: AccountsModule,
      global: true,
      controllers: routes === 'routes' ? controllers : [],
      providers: routes === 'routes' ? [...views, ...handlers] : views,
      exports: [AccountDirectory, AccountRules, SecretValues],
    };
  }
}
