import { Controller, Get } from '@nestjs/common';
import { ApiOkResponse, ApiTags } from '@nestjs/swagger';
import type { QueryOf } from '#platform';
import { Account, Allow, Cursors, noAccount, pagingFields, queryFlag, StrictQuery } from '#platform';
import { keysSchema } from './account-schemas.js';
import { AccountDirectory } from './account-directory.js';
import type { KeyFacts } from './directory-state.js';
import type { Page } from './paging.js';
import { pageById } from './paging.js';

type KeyView = Omit<KeyFacts, 'hash' | 'account'>;

const keyQuery = { ...pagingFields, revoked: queryFlag('Also the keys that were revoked.') } as const;

@ApiTags('accounts')
@Controller('v1/accounts/:account/keys')
export class ListKeysRoute {
  constructor(
    private readonly directory: AccountDirectory,
    private readonly cursors: Cursors,
  ) {}

  @Get()
  @Allow('admin', 'auditor')
  @ApiOkResponse({ description: 'Keys by id; no secret, no hash.', schema: keysSchema })
  async list(
    @Account() account: string,
    @StrictQuery(keyQuery) query: QueryOf<typeof keyQuery>,
  ): Promise<Page<KeyView>> {
    const upTo = await this.directory.completeUpTo(account);
    const facts = this.directory.account(account);
    if (facts === null) throw noAccount();
    const keys = [...facts.keys.values()].filter(({ revokedAt }) => query.revoked || revokedAt === null);
    const filter = JSON.stringify(['keys', account, query.revoked]);
    return pageById(keys.map(viewOf), query, filter, this.cursors, upTo);
  }
}

const viewOf = ({ hash: _hash, account: _account, ...view }: KeyFacts): KeyView => view;
