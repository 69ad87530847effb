import { Body, Controller, Headers, Inject, Put, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiHeader, ApiOkResponse, ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import { IsInt, Max, Min } from 'class-validator';
import type { FastifyReply } from 'fastify';
import type { EventStore, StoredEvent } from '#event-store';
import { cronStream, readSchedule } from '#lifecycles';
import {
  AbsentOrNull,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  etagOf,
  EVENT_STORE,
  IsText,
  IsWireId,
  Meta,
  PathId,
  Problem,
  requireMatch,
  SEALING,
  type CommandMeta,
  type DoneCommand,
  type Role,
} from '#platform';
import { asData, type Sealed } from '#record';
import type { Sealing } from '#sealing';
import { appendUnlessMoved, completeOnly, completion, untilDecided } from './lifecycle-commits.js';
import { replayable } from './replayable.js';

/** How late a slot may come where the runtime does not say, seconds. */
const defaultGrace = 300;
const longestGrace = 86_400;
const wantedGrace = `must be a whole number of seconds from 1 to ${String(longestGrace)}`;

class CronJobBody {
  @ApiProperty()
  @IsText(0, 10_000)
  name!: string;

  @ApiProperty({ description: '`cron_job`, `heartbeat`, or another kind of schedule.' })
  @IsWireId()
  kind!: string;

  @ApiPropertyOptional({ type: String, nullable: true })
  @AbsentOrNull()
  @IsWireId()
  agentId?: string | null;

  @ApiPropertyOptional({
    type: String,
    nullable: true,
    description: 'A cron pattern of five to seven fields; null: from now on no slots are expected.',
  })
  @AbsentOrNull()
  @IsText(1, 200)
  schedule?: string | null;

  @ApiPropertyOptional({ description: 'IANA name.', default: 'UTC' })
  @AbsentOrNull()
  @IsText(1, 100)
  timeZone?: string | null;

  @ApiPropertyOptional({
    type: 'integer',
    minimum: 1,
    maximum: longestGrace,
    default: defaultGrace,
    description: 'How late a slot may come before it is put on record as missed.',
  })
  @AbsentOrNull()
  @IsInt({ message: wantedGrace })
  @Min(1, { message: wantedGrace })
  @Max(longestGrace, { message: wantedGrace })
  graceSeconds?: number | null;
}

/** A cron job as it is declared now. */
export interface DeclaredJob {
  readonly jobId: string;
  readonly name: string;
  readonly kind: string;
  readonly agentId: string | null;
  readonly schedule: string | null;
  readonly timeZone: string;
  readonly graceSeconds: number;
  /** From when on its slots are expected. */
  readonly declaredAt: string;
  /** Of the declaration, for `ETag`. */
  readonly version: number;
}

type Declaration = Omit<DeclaredJob, 'declaredAt' | 'version'>;

const declaredSchema: { readonly type: 'object' } & Record<string, unknown> = {
  type: 'object',
  required: ['jobId', 'name', 'kind', 'agentId', 'schedule', 'timeZone', 'graceSeconds', 'declaredAt', 'version'],
  properties: {
    jobId: { type: 'string' },
    name: { nullable: true },
    kind: { type: 'string' },
    agentId: { type: 'string', nullable: true },
    schedule: { type: 'string', nullable: true },
    timeZone: { type: 'string' },
    graceSeconds: { type: 'integer' },
    declaredAt: { type: 'string', format: 'date-time', description: 'From when on its slots are expected.' },
    version: { type: 'integer' },
  },
};

/** Says when a job is due, so that slots that never come are seen. */
export class DeclareJob extends AccountCommand<DeclaredJob> {
  override readonly allows: readonly Role[] = ['runtime', 'operator'];

  constructor(
    meta: CommandMeta,
    readonly declaration: Declaration,
    readonly ifMatch: string | undefined,
  ) {
    super(meta);
  }
}

@CommandHandler(DeclareJob)
export class DeclareJobHandler extends AccountCommandHandler<DeclareJob, DeclaredJob> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
  ) {
    super();
  }

  protected override run(command: DeclareJob): Promise<DeclaredJob> {
    return untilDecided(() => this.attempt(command));
  }

  protected override async replay({ meta, declaration }: DeclareJob, done: DoneCommand): Promise<DeclaredJob> {
    const { account } = meta;
    const [own] = await this.store.readAccount(account, { after: done.first - 1n, until: done.last, limit: 1 });
    if (own?.event.type === 'cron.job_declared') return this.declared(account, own);
    // It was declared like this already: nothing was written.
    const newest = await this.newest(account, cronStream(declaration.jobId), 'cron.job_declared');
    if (newest === undefined) throw new Error('a declared job without its event');
    return this.declared(account, newest);
  }

  /** Null when the job's stream moved meanwhile. A declaration that changes nothing writes nothing. */
  private async attempt(command: DeclareJob): Promise<DeclaredJob | null> {
    const { meta, declaration } = command;
    const { account } = meta;
    const stream = cronStream(declaration.jobId);
    const [last, newest] = await Promise.all([
      this.newest(account, stream),
      this.newest(account, stream, 'cron.job_declared'),
    ]);
    const before = newest === undefined ? null : await this.declared(account, newest);
    requireDeclared(command.ifMatch, before);
    if (before !== null && isSame(before, declaration)) {
      await completeOnly(this.store, command, stream, {});
      return before;
    }
    const envelope = await this.sealing.envelope(account, { kind: 'account' });
    const { agentId, jobId, name, kind, schedule, timeZone, graceSeconds } = declaration;
    const appended = await appendUnlessMoved(this.store, {
      account,
      writes: [
        {
          stream,
          expectedVersion: last?.event.streamVersion ?? 0,
          events: [
            {
              type: 'cron.job_declared',
              actor: actorOf(meta.caller),
              ...(agentId === null ? {} : { agentId }),
              data: asData({ jobId, name: envelope.seal(name), kind, schedule, timeZone, graceSeconds }),
            },
          ],
        },
      ],
      blobs: envelope.blobs(),
      commands: completion(command, stream, {}),
    });
    const written = appended?.kind === 'appended' ? appended.events[0] : undefined;
    return written === undefined ? null : this.declared(account, written);
  }

  private async newest(account: string, stream: string, type?: 'cron.job_declared'): Promise<StoredEvent | undefined> {
    const range = { stream, order: 'newest', limit: 1, ...(type === undefined ? {} : { types: [type] }) } as const;
    return (await this.store.readAccount(account, range))[0];
  }

  private async declared(account: string, { event }: StoredEvent): Promise<DeclaredJob> {
    const { name, ...rest } = event.data as unknown as Omit<Declaration, 'name' | 'agentId'> & {
      readonly name: Sealed;
    };
    const opened = await this.sealing.open(account, name);
    return {
      jobId: rest.jobId,
      // Once its account's key is destroyed a job has no name; it is declared anew under one.
      name: opened.kind === 'open' ? (opened.value as string) : '',
      kind: rest.kind,
      agentId: event.agentId ?? null,
      schedule: rest.schedule,
      timeZone: rest.timeZone,
      graceSeconds: rest.graceSeconds,
      declaredAt: event.recordedAt,
      version: event.streamVersion,
    };
  }
}

/** `If-Match` on a job that was never declared never holds, `*` included (RFC 9110 §13.1.1). */
const requireDeclared = (ifMatch: string | undefined, before: DeclaredJob | null): void => {
  if (before !== null) requireMatch(ifMatch, etagOf(before.version));
  else if (ifMatch !== undefined) throw new Problem(412, 'stale_etag', 'This job was never declared.');
};

const isSame = ({ declaredAt: _, version: __, ...before }: DeclaredJob, declaration: Declaration): boolean =>
  (Object.keys(declaration) as (keyof Declaration)[]).every((field) => before[field] === declaration[field]);

const declarationOf = (jobId: string, body: Readonly<CronJobBody>): Declaration => {
  const schedule = body.schedule ?? null;
  const timeZone = body.timeZone ?? 'UTC';
  const read = schedule === null ? null : readSchedule(schedule, timeZone);
  if (read?.kind === 'refused') {
    throw new Problem(422, 'bad_schedule', 'The schedule cannot be read.', [
      { pointer: `/${read.field}`, reason: read.reason },
    ]);
  }
  const { name, kind, agentId = null, graceSeconds } = body;
  return { jobId, name, kind, agentId, schedule, timeZone, graceSeconds: graceSeconds ?? defaultGrace };
};

@ApiTags('cron')
@Controller('v1/accounts/:account/cron-jobs')
export class DeclareJobRoute {
  constructor(@Inject(CommandBus) private readonly bus: CommandBus) {}

  @Put(':job')
  @Allow('runtime')
  @ApiHeader({ name: 'If-Match', required: false })
  @ApiOperation({ summary: 'Say when a job is due, so that slots that never come are seen' })
  @ApiOkResponse({ description: 'Declared: slots are expected from `declaredAt` on.', schema: declaredSchema })
  async declare(
    @Meta() meta: CommandMeta,
    @PathId('job', 'The cron job.') jobId: string,
    @Body() body: CronJobBody,
    @Headers('if-match') ifMatch: string | undefined,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<DeclaredJob> {
    const job = await replayable(this.bus, new DeclareJob(meta, declarationOf(jobId, body), ifMatch), reply);
    void reply.header('etag', etagOf(job.version));
    return job;
  }
}
