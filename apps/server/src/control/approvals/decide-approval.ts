import { Body, Controller, Header, HttpCode, Inject, Post, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiOkResponse, ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import { IsIn, Matches } from 'class-validator';
import type { FastifyReply } from 'fastify';
import {
  decideApproval,
  decideGrant,
  evolveApproval,
  evolveGrant,
  grantIdOf,
  unknownApproval,
  unknownGrant,
  type DecisionRefusal,
} from '#approvals';
import type { EventStore, StreamWrite } from '#event-store';
import {
  AbsentOrNull,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  EVENT_STORE,
  Meta,
  PathId,
  Problem,
  SEALING,
  type CommandMeta,
  type Role,
} from '#platform';
import {
  approvalStream,
  grantStream,
  type Actor,
  type ApprovalDecision,
  type ApprovalRequested,
  type RecordedEvent,
} from '#record';
import type { Sealing } from '#sealing';
import { aboutApproval } from '../../gateway/approvals.js';
import { replayable } from '../../gateway/replayable.js';
import { AccountRules } from '../accounts/account-rules.js';
import { completing } from '../accounts/completion.js';
import { ReasonBody, sealReason } from '../accounts/reason.js';
import { shownJson } from '../audit/shown-json.js';
import { appendDecided } from './append-decided.js';
import { approvalSchema } from './approval-schemas.js';
import { approvalView } from './approval-view.js';

const decisions = ['allow-once', 'allow-always', 'deny'] as const;

class DecisionBody extends ReasonBody {
  @ApiProperty({ enum: decisions })
  @IsIn(decisions, { message: `must be one of ${decisions.join(', ')}` })
  decision!: ApprovalDecision;

  @ApiPropertyOptional({
    description: 'The `parametersDigest` of what was looked at: another one in force is 409, and nothing is decided.',
  })
  @AbsentOrNull()
  @Matches(/^[0-9a-f]{64}$/u, { message: 'must be the digest that the approval shows: 64 hex digits' })
  parametersDigest?: string | null;
}

/** Decides on an approval. */
export class DecideApproval extends AccountCommand<null> {
  override readonly allows: readonly Role[] = ['approver', 'operator'];

  constructor(
    meta: CommandMeta,
    readonly approvalId: string,
    readonly body: Readonly<DecisionBody>,
  ) {
    super(meta);
  }
}

@CommandHandler(DecideApproval)
export class DecideApprovalHandler extends AccountCommandHandler<DecideApproval, null> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    private readonly rules: AccountRules,
  ) {
    super();
  }

  protected override async run(command: DecideApproval): Promise<null> {
    const { meta, approvalId, body } = command;
    const { account } = meta;
    const stream = approvalStream(approvalId);
    const reason = await sealReason(this.sealing, account, body.reason);
    for (;;) {
      const events = (await this.store.readStream(account, stream)).map(({ event }) => event);
      const approval = events.reduce(evolveApproval, unknownApproval);
      const { decision, parametersDigest = null } = body;
      const decided = decideApproval(
        approval,
        { decision, reason: reason.data.reason ?? null, parametersDigest },
        new Date(),
      );
      if (decided.kind !== 'events') throw refused(decided);
      const asked = events.find(({ type }) => type === 'approval.requested');
      if (asked === undefined || approval.requested === null) throw refused({ kind: 'unknown' });
      this.refuseSelf(account, asked, actorOf(meta.caller));
      const fields = { ...aboutApproval(asked), actor: actorOf(meta.caller) };
      const writes: StreamWrite[] = [
        {
          stream,
          expectedVersion: events.at(-1)?.streamVersion ?? 0,
          events: decided.events.map((event) => ({ ...fields, ...event })),
        },
        ...(decision === 'allow-always' ? await this.grant(account, asked, approval.requested, fields) : []),
      ];
      const commands = completing(command, stream, 200);
      if (await appendDecided(this.store, { account, writes, blobs: reason.blobs, commands })) return null;
    }
  }

  protected override replay(): Promise<null> {
    return Promise.resolve(null);
  }

  /** Whoever asked may not answer, unless the account says that they may (api.md, settings). */
  private refuseSelf(account: string, { actor }: RecordedEvent, caller: Actor): void {
    if (this.rules.settings(account).selfApproval) return;
    const [asker, decider] = [personOf(actor), personOf(caller)];
    if (asker === null || asker !== decider) return;
    throw new Problem(403, 'self_approval', 'Who is behind the request may not decide on it; somebody else must.');
  }

  private async grant(
    account: string,
    { pluginId = '' }: RecordedEvent,
    { grantable, toolName, parametersDigest, approvalId }: ApprovalRequested,
    fields: object,
  ): Promise<readonly StreamWrite[]> {
    if (!grantable || !this.rules.settings(account).approvalGrants) return [];
    const scope = { pluginId, toolName, parametersDigest };
    const stream = grantStream(grantIdOf(scope));
    const events = (await this.store.readStream(account, stream)).map(({ event }) => event);
    const given = decideGrant(events.reduce(evolveGrant, unknownGrant), scope, approvalId);
    if (given.length === 0) return [];
    const expectedVersion = events.at(-1)?.streamVersion ?? 0;
    return [{ stream, expectedVersion, events: given.map((event) => ({ ...fields, ...event })) }];
  }
}

/** The person behind a request: the one it names, else its key. An operator key that names nobody stands for nobody. */
const personOf = (actor: Actor | undefined): string | null => {
  if (actor === undefined) return null;
  if (actor.onBehalfOf !== undefined) return `person ${actor.onBehalfOf}`;
  return actor.kind === 'key' ? `key ${actor.id}` : null;
};

const refused = (refusal: DecisionRefusal): Problem => {
  switch (refusal.kind) {
    case 'unknown':
      return new Problem(404, 'unknown_approval', 'There is no such approval.');
    case 'ended':
      return new Problem(409, 'approval_ended', `This approval was ${words[refusal.ending.kind]} before.`);
    case 'expired':
      return new Problem(409, 'approval_expired', 'The time of this approval is up.');
    case 'not_offered':
      return new Problem(422, 'not_offered', 'That decision is not offered; the approval stays pending.', [
        { pointer: '/decision', reason: `must be one of ${refusal.allowed.join(', ')}` },
      ]);
    case 'other_parameters':
      return new Problem(
        409,
        'other_parameters',
        'The approval is for other parameters than those that were looked at.',
        [{ pointer: '/parametersDigest', reason: `is ${refusal.expected} in force` }],
      );
  }
};

const words = { decided: 'decided', timed_out: 'ended by its time', cancelled: 'cancelled' } as const;

@ApiTags('approvals')
@Controller('v1/accounts/:account/approvals')
export class DecideApprovalRoute {
  constructor(
    @Inject(CommandBus) private readonly bus: CommandBus,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
  ) {}

  @Post(':approval/decision')
  @HttpCode(200)
  @Header('content-type', 'application/json; charset=utf-8')
  @Allow('approver')
  @ApiOperation({ summary: 'Decide on an approval' })
  @ApiOkResponse({ description: 'The approval as it is now.', schema: approvalSchema })
  async decide(
    @Meta() meta: CommandMeta,
    @PathId('approval', 'The approval.') approvalId: string,
    @Body() body: DecisionBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<string> {
    await replayable(this.bus, new DecideApproval(meta, approvalId, body), reply);
    const stored = await this.store.readStream(meta.account, approvalStream(approvalId));
    return shownJson(this.sealing, meta.caller, meta.account, approvalView(stored.map(({ event }) => event)));
  }
}
