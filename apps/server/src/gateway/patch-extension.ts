import { Body, Controller, Get, Header, Headers, Inject, Patch, Req, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiBody, ApiHeader, ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { fitsJsonLimits } from '#dialects';
import type { EventStore } from '#event-store';
import { decidePatch } from '#lifecycles';
import {
  Account,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  CurrentCaller,
  etagOf,
  EVENT_STORE,
  isId,
  Meta,
  PathId,
  requireMatch,
  SEALING,
  type Caller,
  type CommandMeta,
  type PlatformRequest,
  type Role,
} from '#platform';
import { extensionStream, type Json } from '#record';
import type { Sealing } from '#sealing';
import { completing } from '../control/accounts/completion.js';
import { RecordReads } from '../control/audit/record-reads.js';
import { shownJson } from '../control/audit/shown-json.js';
import { appendUnlessMoved, untilDecided } from './lifecycle-commits.js';
import { badFields, readOpenBody } from './open-body.js';
import { replayable } from './replayable.js';
import { SessionExtensions, type SessionExtension } from './session-extensions.js';

/** What a patch does: keeps a value, or keeps none any more. */
interface ExtensionPatch {
  readonly pluginId: string;
  readonly namespace: string;
  /** Absent: it is unset. */
  readonly value?: Json;
}

/** Changes what a session keeps for a plugin's extension. */
export class PatchExtension extends AccountCommand<null> {
  override readonly allows: readonly Role[] = ['runtime', 'operator'];

  constructor(
    meta: CommandMeta,
    readonly sessionId: string,
    readonly patch: ExtensionPatch,
    readonly ifMatch: string | undefined,
  ) {
    super(meta);
  }
}

@CommandHandler(PatchExtension)
export class PatchExtensionHandler extends AccountCommandHandler<PatchExtension, null> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    private readonly extensions: SessionExtensions,
  ) {
    super();
  }

  protected override async run(command: PatchExtension): Promise<null> {
    const { meta, sessionId, patch, ifMatch } = command;
    const { account, caller } = meta;
    const { pluginId, namespace, value } = patch;
    const known = await this.extensions.inForce(account);
    if (!known.some((one) => one.pluginId === pluginId && one.namespace === namespace)) throw unknownExtension(patch);
    const envelope = await this.sealing.envelope(account, { kind: 'session', id: sessionId });
    const sealed = value === undefined ? null : envelope.seal(value);
    await untilDecided(async () => {
      const { state, version } = await this.extensions.kept(account, sessionId);
      requireMatch(ifMatch, etagOf(version));
      const stream = extensionStream(sessionId);
      const fields = { actor: actorOf(caller), dialect: 'openclaw', sessionId };
      const decided = decidePatch(state, { pluginId, namespace, value: sealed });
      const events = decided.map((event) => ({ ...fields, ...event }));
      const commands = completing(command, stream, 200);
      if (events.length === 0 && commands.length === 0) return true;
      const writes = events.length === 0 ? [] : [{ stream, expectedVersion: version, events }];
      return appendUnlessMoved(this.store, { account, writes, blobs: envelope.blobs(), commands });
    });
    return null;
  }

  protected override replay(): Promise<null> {
    return Promise.resolve(null);
  }
}

const unknownExtension = ({ pluginId, namespace }: ExtensionPatch) =>
  badFields([
    {
      pointer: isId(pluginId) ? '/namespace' : '/pluginId',
      reason: `no enabled plugin ${JSON.stringify(pluginId)} has a session extension ${JSON.stringify(namespace)}`,
    },
  ]);

const patchOf = (body: unknown): ExtensionPatch => {
  const { pluginId, namespace, value, unset } = readOpenBody(
    body,
    ['pluginId', 'namespace', 'value', 'unset'],
    ['value'],
  );
  if (!isId(pluginId)) throw badFields([{ pointer: '/pluginId', reason: 'must be the id of a plugin' }]);
  if (typeof namespace !== 'string' || namespace.trim() === '') {
    throw badFields([{ pointer: '/namespace', reason: 'must be the namespace of a session extension' }]);
  }
  if (unset !== undefined && unset !== true && unset !== false) {
    throw badFields([{ pointer: '/unset', reason: 'must be true or false' }]);
  }
  if ((value === undefined) === (unset !== true)) {
    throw badFields([{ pointer: '/value', reason: 'give a value, or unset: true, and not both' }]);
  }
  if (value !== undefined && !fitsJsonLimits(value)) {
    throw badFields([{ pointer: '/value', reason: 'is over the limits: depth 32, 4096 nodes, 262144 bytes' }]);
  }
  return { pluginId, namespace: namespace.trim(), ...(value === undefined ? {} : { value }) };
};

const anyJson = { nullable: true, description: 'Any JSON.' } as const;

const viewSchema = {
  type: 'object',
  required: ['sessionId', 'items', 'slots'],
  properties: {
    sessionId: { type: 'string' },
    items: {
      type: 'array',
      items: {
        type: 'object',
        required: ['pluginId', 'namespace', 'description', 'slotKey', 'isSet', 'value', 'projection'],
        properties: {
          pluginId: { type: 'string' },
          namespace: { type: 'string' },
          description: { type: 'string' },
          slotKey: { type: 'string', nullable: true },
          isSet: { type: 'boolean' },
          value: anyJson,
          projection: { nullable: true, description: 'What the projector makes of it; without one the value itself.' },
        },
      },
    },
    slots: { type: 'object', additionalProperties: true, description: 'Projections by `sessionEntrySlotKey`.' },
  },
};

@ApiTags('sessions')
@Controller('v1/accounts/:account/sessions/:session/extensions')
export class SessionExtensionsRoutes {
  constructor(
    @Inject(CommandBus) private readonly bus: CommandBus,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(SessionExtensions) private readonly extensions: SessionExtensions,
    @Inject(RecordReads) private readonly reads: RecordReads,
  ) {}

  @Get()
  @Allow('runtime', 'auditor', 'admin')
  @Header('content-type', 'application/json; charset=utf-8')
  @ApiOperation({
    summary: "OpenClaw's session extensions: what the session keeps for plugins, and what they make of it",
  })
  @ApiOkResponse({ description: 'Runtimes see all of it; others what their keys show.', schema: viewSchema })
  async read(
    @Account() account: string,
    @PathId('session', 'The session; of OpenClaw its session key.') sessionId: string,
    @CurrentCaller() caller: Caller,
    @Req() request: PlatformRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<string> {
    const answer = await this.shown(account, sessionId, caller, reply);
    // A runtime reads its own; others read the record.
    if (caller.role !== 'runtime') await this.reads.note(request);
    return answer;
  }

  @Patch()
  @Allow('runtime')
  @Header('content-type', 'application/json; charset=utf-8')
  @ApiOperation({ summary: 'Keep a value for a session extension, or none any more' })
  @ApiHeader({ name: 'If-Match', required: false, description: 'The ETag that was read, or `*`.' })
  @ApiBody({
    schema: {
      type: 'object',
      required: ['pluginId', 'namespace'],
      properties: {
        pluginId: { type: 'string' },
        namespace: { type: 'string' },
        value: { ...anyJson, description: 'Depth 32, 4096 nodes, 512 keys an object, 262144 bytes.' },
        unset: { type: 'boolean', description: 'In place of a value.' },
      },
    },
  })
  @ApiOkResponse({ description: 'The extensions as they are now.', schema: viewSchema })
  async patch(
    @Meta() meta: CommandMeta,
    @PathId('session', 'The session; of OpenClaw its session key.') sessionId: string,
    @Body() body: unknown,
    @Headers('if-match') ifMatch: string | undefined,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<string> {
    await replayable(this.bus, new PatchExtension(meta, sessionId, patchOf(body), ifMatch), reply);
    return this.shown(meta.account, sessionId, meta.caller, reply);
  }

  /** As JSON text: what was sealed is put in as it was, and what a plugin made of it is not looked into. */
  private async shown(account: string, sessionId: string, caller: Caller, reply: FastifyReply): Promise<string> {
    const { state, version } = await this.extensions.view(account, sessionId);
    reply.header('etag', etagOf(version));
    // It is the runtime's own state: what it gave, it may read.
    const content = caller.role === 'runtime' ? 'full' : caller.content;
    const items = await Promise.all(state.map((item) => this.item(account, content, item)));
    const slots = state.flatMap(({ extension: { slotKey }, projection }) =>
      slotKey === null || projection === null
        ? []
        : [`${JSON.stringify(slotKey)}:${projectionFor(projection, content)}`],
    );
    return `{"sessionId":${JSON.stringify(sessionId)},"items":[${items.join(',')}],"slots":{${slots.join(',')}}}`;
  }

  private async item(
    account: string,
    content: Caller['content'],
    { extension, value, projection }: SessionExtension,
  ): Promise<string> {
    const { pluginId, namespace, description, slotKey } = extension;
    const facts = JSON.stringify({ pluginId, namespace, description, slotKey, isSet: value !== null });
    const shown = await shownJson(this.sealing, { content }, account, value);
    return `${facts.slice(0, -1)},"value":${shown},"projection":${projectionFor(projection, content)}}`;
  }
}

const projectionFor = (projection: SessionExtension['projection'], content: Caller['content']): string => {
  if (projection === null) return 'null';
  return content === 'full' ? projection : JSON.stringify({ hidden: true, size: Buffer.byteLength(projection) });
};
