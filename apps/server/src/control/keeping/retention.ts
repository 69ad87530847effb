import { Body, Controller, Get, Headers, Inject, Put, Res, UseInterceptors } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiHeader, ApiOkResponse, ApiOperation, ApiProperty, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import type { EventStore } from '#event-store';
import { classOf, eventClasses, foldKeeping, readRetention, sixMonthsDays, type Retention } from '#keeping';
import {
  Account,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  etagOf,
  EVENT_STORE,
  IsJsonObject,
  Meta,
  Problem,
  requireMatch,
  SEALING,
  type CommandMeta,
  type DoneCommand,
  type Role,
} from '#platform';
import { asData, eventTypes, type EventType, type JsonObject } from '#record';
import type { Sealing } from '#sealing';
import { completing } from '../accounts/completion.js';
import { ReasonBody, sealReason } from '../accounts/reason.js';
import { RecordReads } from '../audit/record-reads.js';
import { KeepingLog } from './keeping-log.js';
import { retentionSchema } from './keeping-schemas.js';

class NewRetention extends ReasonBody {
  @ApiProperty({
    type: 'object',
    additionalProperties: { type: 'integer', nullable: true },
    description: `Days per class of events; null: for good. Classes: ${eventClasses.join(', ')}.`,
    example: { invocation: 730, session: 730, account: null },
  })
  @IsJsonObject()
  classes!: JsonObject;
}

interface RetentionAt {
  readonly classes: Retention;
  readonly version: number;
  readonly setAt: string | null;
}

/** Sets for how long events are kept, by class. Nothing is removed by it: a purge does that. */
export class SetRetention extends AccountCommand<RetentionAt> {
  override readonly allows: readonly Role[] = ['operator'];

  constructor(
    meta: CommandMeta,
    readonly wanted: NewRetention,
    readonly ifMatch: string | undefined,
  ) {
    super(meta);
  }
}

@CommandHandler(SetRetention)
export class SetRetentionHandler extends AccountCommandHandler<SetRetention, RetentionAt> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    private readonly keeping: KeepingLog,
  ) {
    super();
  }

  protected override async run(command: SetRetention): Promise<RetentionAt> {
    const { meta, wanted } = command;
    const text = wanted.reason ?? '';
    const reason = await sealReason(this.sealing, meta.account, text);
    let version = 0;
    const appended = await this.keeping.change(meta.account, (keeping) => {
      requireMatch(command.ifMatch, etagOf(keeping.retentionVersion));
      const read = readRetention(wanted.classes, text.trim() !== '');
      if (read.kind === 'refused') throw new Problem(422, 'bad_retention', 'The retention does not fit.', read.faults);
      version = keeping.retentionVersion + 1;
      return {
        events: [
          {
            type: 'retention.set',
            actor: actorOf(meta.caller),
            data: asData({ before: keeping.retention, after: read.retention, version, ...reason.data }),
          },
        ],
        blobs: reason.blobs,
        commands: completing(command, 'keeping', 200, { version }),
      };
    });
    return { ...retentionIn(appended.events), version };
  }

  protected override async replay({ meta }: SetRetention, done: DoneCommand): Promise<RetentionAt> {
    const events = await this.store.readAccount(meta.account, { after: done.first - 1n, until: done.last, limit: 1 });
    return { ...retentionIn(events), version: Number(done.result.note?.version ?? 0) };
  }
}

const retentionIn = (events: Parameters<typeof foldKeeping>[0]): Omit<RetentionAt, 'version'> => {
  const { retention, retentionSetAt } = foldKeeping(events);
  return { classes: retention, setAt: retentionSetAt };
};

/** The retention as people see it. */
interface RetentionView extends RetentionAt {
  readonly purges: { readonly [name: string]: readonly EventType[] };
  readonly leastDaysWithoutReason: number;
}

const viewOf = ({ classes, version, setAt }: RetentionAt): RetentionView => ({
  classes,
  purges: Object.fromEntries(eventClasses.map((name) => [name, eventTypes.filter((type) => classOf(type) === name)])),
  leastDaysWithoutReason: sixMonthsDays,
  setAt,
  version,
});

@ApiTags('keeping')
@Controller('v1/accounts/:account/retention')
export class RetentionRoutes {
  constructor(
    private readonly bus: CommandBus,
    private readonly keeping: KeepingLog,
  ) {}

  @Get()
  @Allow('auditor')
  @UseInterceptors(RecordReads)
  @ApiOperation({ summary: 'For how long events are kept, by class' })
  @ApiOkResponse({ schema: retentionSchema(eventClasses) })
  async read(@Account() account: string, @Res({ passthrough: true }) reply: FastifyReply): Promise<RetentionView> {
    const { retention, retentionVersion: version, retentionSetAt: setAt } = await this.keeping.read(account);
    void reply.header('etag', etagOf(version));
    return viewOf({ classes: retention, version, setAt });
  }

  @Put()
  @Allow()
  @ApiHeader({ name: 'If-Match', required: false })
  @ApiOperation({ summary: 'Set for how long events are kept' })
  @ApiOkResponse({
    description: 'Set. A class that is not named is kept for good. Less than six months needs a reason.',
    schema: retentionSchema(eventClasses),
  })
  async set(
    @Meta() meta: CommandMeta,
    @Body() body: NewRetention,
    @Headers('if-match') ifMatch: string | undefined,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<RetentionView> {
    const command = new SetRetention(meta, body, ifMatch);
    const set = await this.bus.execute(command);
    void reply.header('etag', etagOf(set.version));
    if (command.done !== null) void reply.header('idempotency-replayed', 'true');
    return viewOf(set);
  }
}
