import { Controller, Get } from '@nestjs/common';
import { ApiOkResponse, ApiTags } from '@nestjs/swagger';
import type { QueryOf } from '#platform';
import { Allow, Cursors, pagingFields, StrictQuery } from '#platform';
import { accountsSchema } from './account-schemas.js';
import { AccountDirectory } from './account-directory.js';
import type { AccountView } from './create-account.js';
import { systemAccount } from './directory-state.js';
import type { Page } from './paging.js';
import { pageById } from './paging.js';

@ApiTags('accounts')
@Controller('v1/accounts')
export class ListAccountsRoute {
  constructor(
    private readonly directory: AccountDirectory,
    private readonly cursors: Cursors,
  ) {}

  @Get()
  @Allow('operator')
  @ApiOkResponse({ description: 'All accounts, by id.', schema: accountsSchema })
  async list(@StrictQuery(pagingFields) query: QueryOf<typeof pagingFields>): Promise<Page<AccountView>> {
    // Accounts are born in the log of `system`.
    const upTo = await this.directory.completeUpTo(systemAccount);
    const all = this.directory.accounts().map(({ id, name, createdAt }) => ({ id, name, createdAt }));
    return pageById(all, query, 'accounts', this.cursors, upTo);
  }
}
