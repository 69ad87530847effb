import { Body, Controller, Inject, Post, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiCreatedResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import type { StoredEvent } from '#event-store';
import type { Caller, CommandMeta, DoneCommand, Role } from '#platform';
import {
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  CurrentCaller,
  EVENT_STORE,
  IdempotencyMeta,
  SEALING,
} from '#platform';
import type { EventStore } from '#event-store';
import type { Sealing } from '#sealing';
import { claimLost } from '../accounts/change-account.js';
import { completing } from '../accounts/completion.js';
import { systemAccount } from '../accounts/directory-state.js';
import { ReasonBody, sealReason } from '../accounts/reason.js';
import { LogKeys, logKeyStream } from './log-keys.js';
import type { LogKeyView } from './log-key-view.js';
import { logKeySchema, viewOf } from './log-key-view.js';

class LogKeyRotation extends ReasonBody {}

/** Puts a new key in force; what was signed with the one before stays good. */
export class RotateLogKey extends AccountCommand<LogKeyView> {
  override readonly allows: readonly Role[] = ['operator'];

  constructor(
    meta: CommandMeta,
    readonly reason: string | null,
  ) {
    super(meta);
  }
}

@CommandHandler(RotateLogKey)
export class RotateLogKeyHandler extends AccountCommandHandler<RotateLogKey, LogKeyView> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    private readonly keys: LogKeys,
  ) {
    super();
  }

  protected override async run(command: RotateLogKey): Promise<LogKeyView> {
    const { data, blobs } = await sealReason(this.sealing, systemAccount, command.reason);
    const rotated = await this.keys.rotate({
      actor: actorOf(command.meta.caller),
      ...data,
      blobs,
      commands: completing(command, logKeyStream, 201),
    });
    if (rotated === null) throw claimLost();
    return this.answer(rotated);
  }

  protected override async replay(_: RotateLogKey, done: DoneCommand): Promise<LogKeyView> {
    const range = { after: done.first - 1n, until: done.last, limit: 1 };
    const [rotated] = await this.store.readAccount(systemAccount, range);
    if (rotated === undefined) throw new Error('a rotation without its event');
    await this.keys.refresh();
    return this.answer(rotated);
  }

  /** As it was answered first, whatever came into force since. */
  private answer({ event }: StoredEvent): LogKeyView {
    const key = this.keys.all().find(({ id }) => id === event.data.to);
    if (key === undefined) throw new Error('a log key that was put in force and is not known');
    return viewOf({ ...key, validUntil: null });
  }
}

@ApiTags('proofs')
@Controller('v1/log-keys')
export class RotateLogKeyRoute {
  constructor(private readonly bus: CommandBus) {}

  @Post('rotation')
  @Allow('operator')
  @ApiCreatedResponse({ description: 'The key that is in force from now on.', schema: logKeySchema })
  async rotate(
    @CurrentCaller() caller: Caller,
    @IdempotencyMeta() idempotency: CommandMeta['idempotency'],
    @Body() body: LogKeyRotation,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<LogKeyView> {
    const command = new RotateLogKey({ account: systemAccount, caller, idempotency }, body.reason ?? null);
    const key = await this.bus.execute(command);
    if (command.done !== null) void reply.header('idempotency-replayed', 'true');
    return key;
  }
}
