import { createHmac } from 'node:crypto';
import { Body, Controller, Inject, Post, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiCreatedResponse, ApiProperty, ApiTags } from '@nestjs/swagger';
import { IsIn } from 'class-validator';
import type { FastifyReply } from 'fastify';
import { v7 as uuidv7 } from 'uuid';
import type { EventStore } from '#event-store';
import type { CommandMeta, DoneCommand, Role } from '#platform';
import {
  Absent,
  AbsentOrNull,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  derivedKey,
  EVENT_STORE,
  forbidden,
  formatInstant,
  hashKey,
  IsInstant,
  IsText,
  MASTER_KEY,
  Meta,
  Problem,
  readInstant,
  SEALING,
} from '#platform';
import { asData } from '#record';
import type { Sealing } from '#sealing';
import { createdKeySchema } from './account-schemas.js';
import { AccountDirectory } from './account-directory.js';
import { changeAccount } from './change-account.js';
import { completing } from './completion.js';
import type { KeyCreated } from './directory-state.js';
import { keyStream, systemAccount } from './directory-state.js';
import { ReasonBody, sealReason } from './reason.js';

const roles = ['runtime', 'admin', 'approver', 'auditor', 'operator'] as const;
const contents = ['full', 'none'] as const;

/** A key when it is made: the only time its secret is shown. */
export interface CreatedKey {
  readonly id: string;
  /** Null when a repeated request comes after the master key was changed: it can no longer be told. */
  readonly secret: string | null;
  readonly role: Role;
  readonly name: string;
  readonly content: 'full' | 'none';
  readonly expiresAt: string | null;
}

class NewKey extends ReasonBody {
  @ApiProperty({ enum: roles })
  @IsIn(roles, { message: `role must be one of ${roles.join(', ')}` })
  role!: Role;

  @ApiProperty({ minLength: 1, maxLength: 200 })
  @IsText(1, 200)
  name!: string;

  @ApiProperty({
    enum: contents,
    required: false,
    description: 'Default: full for auditor and operator, else none; never more than the key that makes it has.',
  })
  @Absent()
  @IsIn(contents, { message: 'content must be full or none' })
  content?: 'full' | 'none';

  @ApiProperty({ type: 'string', format: 'date-time', required: false, nullable: true })
  @AbsentOrNull()
  @IsInstant()
  expiresAt?: string | null;
}

/** Makes a key. An admin may make keys of its own account, auditors included; each is an event that says who did. */
export class CreateKey extends AccountCommand<CreatedKey> {
  override readonly allows: readonly Role[] = ['admin', 'operator'];

  constructor(
    meta: CommandMeta,
    readonly wanted: NewKey,
  ) {
    super(meta);
  }
}

@CommandHandler(CreateKey)
export class CreateKeyHandler extends AccountCommandHandler<CreateKey, CreatedKey> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(MASTER_KEY) private readonly masterKey: Uint8Array,
    private readonly directory: AccountDirectory,
  ) {
    super();
  }

  protected override async run(command: CreateKey): Promise<CreatedKey> {
    const { meta, wanted } = command;
    checkRole(command);
    const content = contentOf(command);
    const reason = await sealReason(this.sealing, meta.account, wanted.reason);
    const id = uuidv7();
    const secret = secretOf(this.masterKey, id);
    const data = {
      id,
      role: wanted.role,
      name: wanted.name,
      content,
      expiresAt: expiryOf(wanted),
      hash: hashKey(secret),
    };
    await changeAccount(this.store, this.directory, meta.account, () => ({
      account: meta.account,
      writes: [
        {
          stream: keyStream(id),
          expectedVersion: 0,
          events: [{ type: 'key.created', actor: actorOf(meta.caller), data: asData({ ...data, ...reason.data }) }],
        },
      ],
      blobs: reason.blobs,
      commands: completing(command, keyStream(id), 201),
    }));
    return shownKey(data, secret);
  }

  protected override async replay(command: CreateKey, done: DoneCommand): Promise<CreatedKey> {
    const [stored] = await this.store.readStream(command.meta.account, done.result.stream);
    if (stored === undefined) throw new Error('a key without its birth');
    const { hash, ...data } = stored.event.data as unknown as KeyCreated;
    const secret = secretOf(this.masterKey, data.id);
    return shownKey(data, hashKey(secret) === hash ? secret : null);
  }
}

/** Field by field, so that a repeated answer is the first one to the letter. */
const shownKey = (
  { id, role, name, content, expiresAt }: Omit<CreatedKey, 'secret'>,
  secret: string | null,
): CreatedKey => ({ id, secret, role, name, content, expiresAt });

/**
 * 256 bits that nobody can tell from random ones without the master key. Derived, not drawn, so that a client whose
 * first answer was lost gets the same one when it repeats its request (api.md, idempotency), on any replica, while
 * nothing that is stored gives the key away.
 */
const secretOf = (masterKey: Uint8Array, id: string): string =>
  `hlk_${createHmac('sha256', derivedKey(masterKey, 'hookledger/api-key/v1')).update(id).digest('base64url')}`;

/**
 * A key never makes one that sees more than itself; else every admin could read what it may not, through a key of its
 * own making. Asked for, that is refused; by default the new key sees what its role sees, at most what its maker does.
 */
const contentOf = ({ meta, wanted }: CreateKey): 'full' | 'none' => {
  const seesAll = meta.caller.role === 'operator' || meta.caller.content === 'full';
  if (wanted.content === 'full' && !seesAll) {
    const detail = 'A key without content makes no key with content; an operator can.';
    throw new Problem(403, 'content_beyond_own', detail, [{ pointer: '/content', reason: 'is more than your own' }]);
  }
  const byRole = wanted.role === 'auditor' || wanted.role === 'operator' ? 'full' : 'none';
  return wanted.content ?? (seesAll ? byRole : 'none');
};

/** Operator keys belong to `system`, and only an operator makes one; the other roles belong to an account that works. */
const checkRole = ({ meta, wanted }: CreateKey): void => {
  if (wanted.role === 'operator' && meta.caller.role !== 'operator') throw forbidden(meta.caller.role, []);
  if ((wanted.role === 'operator') === (meta.account === systemAccount)) return;
  const reason =
    wanted.role === 'operator'
      ? `operator keys belong to the account ${systemAccount}`
      : 'this account has operator keys only';
  throw new Problem(422, 'bad_fields', 'The body does not fit.', [{ pointer: '/role', reason }]);
};

const expiryOf = ({ expiresAt }: NewKey): string | null => {
  if (expiresAt === undefined || expiresAt === null) return null;
  const read = readInstant(expiresAt);
  if ('time' in read && read.time.getTime() > Date.now()) return formatInstant(read.time);
  const reason = 'must be in the future';
  throw new Problem(422, 'bad_fields', 'The body does not fit.', [{ pointer: '/expiresAt', reason }]);
};

@ApiTags('accounts')
@Controller('v1/accounts/:account/keys')
export class CreateKeyRoute {
  constructor(private readonly bus: CommandBus) {}

  @Post()
  @Allow('admin')
  @ApiCreatedResponse({ description: 'The key; `secret` is shown this once.', schema: createdKeySchema })
  async create(
    @Meta() meta: CommandMeta,
    @Body() body: NewKey,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<CreatedKey> {
    const command = new CreateKey(meta, body);
    const key = await this.bus.execute(command);
    void reply.header('cache-control', 'no-store');
    if (command.done !== null) void reply.header('idempotency-replayed', 'true');
    return key;
  }
}
