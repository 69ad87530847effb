import { Controller, Delete, Headers, HttpCode, Inject, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiHeader, ApiNoContentResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import type { EventStore } from '#event-store';
import type { CommandMeta, QueryOf, Role } from '#platform';
import {
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  etagOf,
  EVENT_STORE,
  Meta,
  PathId,
  Problem,
  requireMatch,
  SEALING,
  StrictQuery,
} from '#platform';
import { asData } from '#record';
import type { Sealing } from '#sealing';
import { AccountDirectory } from './account-directory.js';
import { changeAccount } from './change-account.js';
import { completing } from './completion.js';
import { keyStream } from './directory-state.js';
import { reasonQuery, sealReason } from './reason.js';

/** Revokes a key: refused here from the answer on, on other replicas within a second. */
export class RevokeKey extends AccountCommand<null> {
  override readonly allows: readonly Role[] = ['admin', 'operator'];

  constructor(
    meta: CommandMeta,
    readonly id: string,
    readonly ifMatch: string | undefined,
    readonly reason: string | null,
  ) {
    super(meta);
  }
}

@CommandHandler(RevokeKey)
export class RevokeKeyHandler extends AccountCommandHandler<RevokeKey, null> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    private readonly directory: AccountDirectory,
  ) {
    super();
  }

  protected override async run(command: RevokeKey): Promise<null> {
    const { meta, id } = command;
    const reason = await sealReason(this.sealing, meta.account, command.reason);
    await changeAccount(this.store, this.directory, meta.account, ({ keys }) => {
      const key = keys.get(id);
      if (key?.revokedAt !== null) throw new Problem(404, 'unknown_key', 'There is no such key.');
      // A key never changes: it has one version for as long as it lives.
      requireMatch(command.ifMatch, etagOf(1));
      const { role, name } = key;
      return {
        account: meta.account,
        writes: [
          {
            stream: keyStream(id),
            // Bootstrapped operator keys share a stream; the directory says which are live.
            expectedVersion: 'any',
            events: [
              { type: 'key.revoked', actor: actorOf(meta.caller), data: asData({ id, role, name, ...reason.data }) },
            ],
          },
        ],
        blobs: reason.blobs,
        commands: completing(command, keyStream(id), 204),
      };
    });
    return null;
  }

  protected override replay(): Promise<null> {
    return Promise.resolve(null);
  }
}

@ApiTags('accounts')
@Controller('v1/accounts/:account/keys/:key')
export class RevokeKeyRoute {
  constructor(private readonly bus: CommandBus) {}

  @Delete()
  @Allow('admin')
  @HttpCode(204)
  @ApiHeader({ name: 'If-Match', required: false })
  @ApiNoContentResponse({ description: 'Revoked.' })
  async revoke(
    @Meta() meta: CommandMeta,
    @PathId('key') id: string,
    @StrictQuery(reasonQuery) { reason }: QueryOf<typeof reasonQuery>,
    @Headers('if-match') ifMatch: string | undefined,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<void> {
    const command = new RevokeKey(meta, id, ifMatch, reason);
    await this.bus.execute(command);
    if (command.done !== null) void reply.header('idempotency-replayed', 'true');
  }
}
