import { Body, Controller, HttpCode, Inject, Post, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiBody, ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { IsIn, IsInt, Matches, Max, Min } from 'class-validator';
import type { FastifyReply } from 'fastify';
import type { CompletedCommand, EventStore, Sql } from '#event-store';
import { verifyCause, verifyLineage } from '#firing';
import {
  AbsentOrNull,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  escapePointer,
  EVENT_STORE,
  IsJsonObject,
  IsText,
  Meta,
  Problem,
  readDto,
  SEALING,
  SQL,
  TOKEN_KEY,
  type CommandMeta,
  type DoneCommand,
  type FieldFault,
  type Role,
} from '#platform';
import { asData, digestOf, invocationStream, missedStream, type InvocationMissed, type NewEvent } from '#record';
import type { Scope, Sealing } from '#sealing';
import { AccountRules } from '../control/accounts/account-rules.js';
import { knownDialect, readOrder, type FiringOrder } from './firing-order.js';
import { batchItemKey } from './fire-batch.js';
import { fireBodySchema } from './firing-schemas.js';
import { inUtc } from './instants.js';
import { newId } from './new-id.js';
import { replayable } from './replayable.js';

const decisions = ['open', 'closed'] as const;
const wantedCount = 'must be a whole number from 0 to 1000000000';

class UnreachableBody {
  @IsText(1, 200)
  dialect!: string;

  @IsText(1, 200)
  hook!: string;

  @IsIn(decisions, { message: `must be one of ${decisions.join(', ')}` })
  decision!: (typeof decisions)[number];

  @IsInt({ message: wantedCount })
  @Min(0, { message: wantedCount })
  @Max(1_000_000_000, { message: wantedCount })
  attempts!: number;

  @AbsentOrNull()
  @Matches(/^[\x21-\x7e]{1,200}$/u, { message: 'must be 1 to 200 visible ASCII characters' })
  firingKey?: string | null;

  @AbsentOrNull()
  @IsInt({ message: 'must be a place in the batch, from 0' })
  @Min(0, { message: 'must be a place in the batch, from 0' })
  @Max(99, { message: 'must be a place in the batch, from 0' })
  batchIndex?: number | null;

  @IsJsonObject()
  firing!: object;
}

/** What was put on record of a firing that was missed. */
export interface MissedAnswer {
  readonly decision: 'open' | 'closed';
  /** The invocation, where an attempt had come through all the same. */
  readonly arrivedAs: string | null;
  readonly position: string;
}

const bodySchema: { readonly type: 'object' } & Record<string, unknown> = {
  type: 'object',
  required: ['dialect', 'hook', 'decision', 'attempts', 'firing'],
  additionalProperties: false,
  properties: {
    dialect: { type: 'string' },
    hook: { type: 'string' },
    decision: {
      type: 'string',
      enum: [...decisions],
      description: '`open`: the operation went on as it was; `closed`: it did not.',
    },
    attempts: { type: 'integer', description: 'How often the runtime tried.' },
    firingKey: {
      type: 'string',
      nullable: true,
      description:
        'The Idempotency-Key of the attempts: one that comes after this report is refused, and one that had come through is named.',
    },
    batchIndex: { type: 'integer', nullable: true, description: 'Its place in the batch that the key was for.' },
    firing: { ...fireBodySchema, description: 'What the hook would have been fired with.' },
  },
};

const missedSchema: { readonly type: 'object' } & Record<string, unknown> = {
  type: 'object',
  required: ['decision', 'arrivedAs', 'position'],
  properties: {
    decision: { type: 'string', enum: [...decisions] },
    arrivedAs: { type: 'string', nullable: true },
    position: { type: 'string' },
  },
};

/** Records that a runtime decided on an operation without the platform, which it could not reach. */
export class ReportUnreachable extends AccountCommand<MissedAnswer> {
  override readonly allows: readonly Role[] = ['runtime', 'operator'];

  constructor(
    meta: CommandMeta,
    readonly body: Readonly<UnreachableBody>,
    readonly order: FiringOrder,
  ) {
    super(meta);
  }
}

/** The late attempt waits for nobody: who holds the key has come through. */
const leaseMs = 30_000;

@CommandHandler(ReportUnreachable)
export class ReportUnreachableHandler extends AccountCommandHandler<ReportUnreachable, MissedAnswer> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(SQL) private readonly sql: Sql,
    @Inject(TOKEN_KEY) private readonly tokenKey: Uint8Array,
  ) {
    super();
  }

  protected override async run(command: ReportUnreachable): Promise<MissedAnswer> {
    const { account } = command.meta;
    const { decision } = command.body;
    const key = firingKeyOf(command.body);
    const taken = key === null ? null : await this.takeKey(account, key);
    const arrivedAs = key === null || taken !== null ? null : await this.arrivedAs(account, key);
    const stream = missedStream(newId());
    const envelope = await this.sealing.envelope(account, scopeOf(command.order));
    const event = await this.event(command, { arrivedAs, key, seal: (text) => envelope.sealText(text) });
    const commands: CompletedCommand[] = [command.claim, taken].flatMap((claim) =>
      claim === null ? [] : [{ key: claim.key, token: claim.token, result: { stream, status: 200 } }],
    );
    const result = await this.store.append({
      account,
      writes: [{ stream, expectedVersion: 0, events: [event] }],
      blobs: envelope.blobs(),
      commands,
    });
    if (result.kind !== 'appended')
      throw new Problem(503, 'superseded', 'Another attempt took over.', [], { 'retry-after': '1' });
    return { decision, arrivedAs, position: String(result.last) };
  }

  protected override async replay({ meta, body }: ReportUnreachable, done: DoneCommand): Promise<MissedAnswer> {
    const [stored] = await this.store.readStream(meta.account, done.result.stream);
    const { arrivedAs = null } = (stored?.event.data ?? {}) as unknown as InvocationMissed;
    return { decision: body.decision, arrivedAs, position: String(done.last) };
  }

  /** The key is taken out of use, so that an attempt that was long on its way runs nothing; null: one was here. */
  private async takeKey(
    account: string,
    key: string,
  ): Promise<{ readonly key: string; readonly token: string } | null> {
    const claim = await this.store.claim({
      account,
      key,
      requestDigest: digestOf(`missed\n${key}`),
      invocationId: null,
      leaseMs,
      waitMs: 0,
    });
    return claim.kind === 'claimed' ? { key, token: claim.token } : null;
  }

  /** The invocation of an attempt that had come through, be it that its chain still runs. */
  private async arrivedAs(account: string, key: string): Promise<string | null> {
    const [row] = await this.sql.query<{ id: string | null; runs: boolean }>(
      `select invocation_id as id, lease_until > now() as runs from command where account = $1 and idempotency_key = $2`,
      [account, key],
    );
    if (row?.id === undefined || row.id === null) return null;
    const isThere = row.runs || (await this.store.streamVersion(account, invocationStream(row.id))) > 0;
    return isThere ? row.id : null;
  }

  private async event(
    { meta, body, order }: ReportUnreachable,
    { arrivedAs, key, seal }: { arrivedAs: string | null; key: string | null; seal: (text: string) => object },
  ): Promise<NewEvent> {
    const { account } = meta;
    const { envelope, opening } = order;
    const { targetIsAddress, target } = opening;
    const named = {
      operationId: envelope.operationId ?? opening.operationId ?? null,
      turnId: envelope.turnId ?? opening.turnId,
      sessionId: envelope.sessionId ?? opening.sessionId,
      agentId: envelope.agentId ?? opening.agentId,
      correlationId: envelope.correlationId,
      root: this.rootOf(account, envelope),
      target: target !== null && targetIsAddress ? await this.sealing.searchHash(account, target) : target,
      occurredAt: inUtc(envelope.occurredAt),
    };
    const subject = envelope.dataSubject;
    const data = {
      decision: body.decision,
      attempts: body.attempts,
      context: seal(opening.recordedInput ?? opening.input),
      ...(key === null ? {} : { firingKey: digestOf(key) }),
      ...(arrivedAs === null ? {} : { arrivedAs }),
      ...(subject === null
        ? {}
        : {
            dataSubject: {
              hmac: await this.sealing.searchHash(account, subject),
              sealed: seal(JSON.stringify(subject)),
            },
          }),
      ...(target !== null && targetIsAddress ? { target: seal(JSON.stringify(target)) } : {}),
    };
    return {
      type: 'invocation.missed',
      actor: actorOf(meta.caller),
      dialect: order.dialect.name,
      hook: order.hook,
      outcome: body.decision === 'open' ? 'passed' : 'cancelled',
      reasonCode: 'unreachable',
      ...Object.fromEntries(Object.entries(named).filter(([, value]) => value !== null)),
      data: asData(data),
    };
  }

  /** A token may be past its time when the report comes; then nothing is said of the root. */
  private rootOf(account: string, { cause, lineage }: FiringOrder['envelope']): string | null {
    const read =
      cause !== null
        ? verifyCause(this.tokenKey, account, cause, new Date())
        : lineage !== null
          ? verifyLineage(this.tokenKey, account, lineage)
          : null;
    return read === null || read.kind === 'refused' ? null : read.claims.root;
  }
}

const firingKeyOf = ({ firingKey = null, batchIndex = null }: Readonly<UnreachableBody>): string | null =>
  firingKey === null || batchIndex === null ? firingKey : batchItemKey(firingKey, batchIndex);

const scopeOf = ({ envelope, opening }: FiringOrder): Scope => {
  if (envelope.dataSubject !== null) return { kind: 'subject', id: envelope.dataSubject };
  const id = envelope.sessionId ?? opening.sessionId;
  return id === null ? { kind: 'account' } : { kind: 'session', id };
};

@ApiTags('firing')
@Controller('v1/accounts/:account/unreachable')
export class ReportUnreachableRoute {
  constructor(
    @Inject(CommandBus) private readonly bus: CommandBus,
    @Inject(AccountRules) private readonly rules: AccountRules,
  ) {}

  @Post()
  @HttpCode(200)
  @Allow('runtime')
  @ApiOperation({ summary: 'Say what was decided while the platform could not be reached' })
  @ApiBody({ schema: bodySchema })
  @ApiOkResponse({ description: 'Recorded; nothing is run.', schema: missedSchema })
  report(
    @Meta() meta: CommandMeta,
    @Body() body: unknown,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<MissedAnswer> {
    const told = readDto(UnreachableBody, body);
    return replayable(this.bus, new ReportUnreachable(meta, told, this.orderOf(meta.account, told)), reply);
  }

  private orderOf(account: string, { dialect, hook, firing }: UnreachableBody): FiringOrder {
    const known = knownDialect(dialect, hook);
    try {
      return readOrder(known, hook, firing, this.rules.profile(account, known.name));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      const inside = (fault: FieldFault): FieldFault => ({
        ...fault,
        pointer: `/${escapePointer('firing')}${fault.pointer}`,
      });
      throw new Problem(error.status, error.code, error.detail, error.errors.map(inside));
    }
  }
}
