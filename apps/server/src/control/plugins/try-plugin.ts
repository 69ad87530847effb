import { Body, Controller, HttpCode, Inject, Post, Res } from '@nestjs/common';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { ApiOkResponse, ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { v7 as uuidv7 } from 'uuid';
import type { Dialect, Opening } from '#dialects';
import {
  Absent,
  AccountCommand,
  AccountCommandHandler,
  actorOf,
  Allow,
  IsJsonObject,
  IsText,
  Meta,
  PathId,
  Problem,
  SANDBOX,
  SEALING,
  type Caller,
  type CommandMeta,
  type DoneCommand,
  type Role,
  type Shown,
} from '#platform';
import { timeoutOf } from '#plugins';
import { asData, pluginStream, type Json, type JsonObject, type PluginSnapshot, type StoredWarning } from '#record';
import type { GuestCall, HandlerOutcome, Sandbox } from '#sandbox';
import type { Envelope, Sealing } from '#sealing';
import { replayable } from '../../gateway/replayable.js';
import { AccountRules } from '../accounts/account-rules.js';
import type { ReadyRealm } from './active-plugins.js';
import { PluginCommands } from './plugin-commands.js';
import { PluginLog } from './plugin-log.js';
import { knownDialect } from './plugin-rules.js';
import { Problems, trialSchema } from './plugin-schemas.js';
import { hidden } from './plugin-view.js';
import { openRealm } from './realms.js';
import { namesOnly, SecretValues } from './secrets.js';

class TrialBody {
  @ApiProperty({ type: String })
  @IsText(1, 200)
  hook!: string;

  @ApiProperty({
    type: Object,
    additionalProperties: true,
    description: "The hook's own context; Kohaku: its `input`.",
  })
  @IsJsonObject()
  context!: JsonObject;

  @ApiPropertyOptional({ type: Object, additionalProperties: true, description: "OpenClaw: the hook's event." })
  @Absent()
  @IsJsonObject()
  event?: JsonObject;
}

/** What one handler made of one context; nothing was changed by it. */
export interface TrialAnswer {
  readonly trialId: string;
  readonly pluginId: string;
  readonly version: string;
  readonly revision: number;
  readonly hook: string;
  readonly outcome: 'passed' | 'rewrote' | 'cancelled' | 'observed' | 'claimed' | 'held' | 'skipped' | 'not_run';
  /** With `skipped` and `not_run`. */
  readonly cause: string | null;
  readonly reason: string | null;
  /** The mutable part of the context after the handler; null where the hook has none, and on cancel. */
  readonly value: Json;
  readonly warnings: readonly { readonly code: string; readonly detail: string | null }[];
  readonly logs: readonly Json[];
  /** Host members that it called; every call was refused. */
  readonly refusedCalls: readonly string[];
  readonly durationMs: number;
}

/** A trial's answer as a caller may see it (api.md, content). */
interface TrialView extends Omit<TrialAnswer, 'reason' | 'value' | 'warnings' | 'logs'> {
  readonly reason: Shown;
  readonly value: Shown;
  readonly warnings: readonly { readonly code: string; readonly detail: Shown }[];
  readonly logs: readonly Shown[];
}

const shownTo = ({ content }: Pick<Caller, 'content'>, answer: TrialAnswer): TrialView =>
  content === 'full'
    ? answer
    : {
        ...answer,
        reason: hidden(answer.reason),
        value: hidden(answer.value),
        warnings: answer.warnings.map(({ code, detail }) => ({ code, detail: hidden(detail) })),
        logs: answer.logs.map(hidden),
      };

/** Most lines and calls that a trial's answer names. */
const keptMost = 100;

/** Runs one plugin's handler on a context, in a fresh realm, without a host. Recorded as `plugin.tried` only. */
export class TryPlugin extends AccountCommand<TrialAnswer> {
  override readonly allows: readonly Role[] = ['admin'];

  constructor(
    meta: CommandMeta,
    readonly id: string,
    readonly body: TrialBody,
  ) {
    super(meta);
  }
}

/** `data` of `plugin.tried`. The answer as a whole is content, and is what a repeated request gets. */
interface Tried {
  readonly trialId: string;
  readonly hook: string;
  readonly context: ReturnType<Envelope['seal']>;
  readonly answer: ReturnType<Envelope['seal']>;
  readonly outcome: TrialAnswer['outcome'];
  readonly cause: string | null;
  readonly warnings: readonly StoredWarning[];
  readonly refusedCalls: number;
}

@CommandHandler(TryPlugin)
export class TryPluginHandler extends AccountCommandHandler<TryPlugin, TrialAnswer> {
  constructor(
    @Inject(PluginCommands) private readonly commands: PluginCommands,
    @Inject(PluginLog) private readonly log: PluginLog,
    @Inject(SecretValues) private readonly secrets: SecretValues,
    @Inject(SANDBOX) private readonly sandbox: Sandbox,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(AccountRules) private readonly rules: AccountRules,
  ) {
    super();
  }

  protected override async run(command: TryPlugin): Promise<TrialAnswer> {
    const { meta, id, body } = command;
    const plugin = await this.commands.installed(meta.account, id);
    const dialect = this.dialectOf(meta.account, plugin);
    const opening = openingOf(dialect, plugin, body);
    const answer = await this.tryOut(meta.account, plugin, dialect, body.hook, opening);
    const envelope = await this.sealing.envelope(meta.account, { kind: 'account' });
    const stream = pluginStream(id);
    const tried = triedData(body, answer, envelope);
    return this.log.commit(command, () =>
      Promise.resolve({
        writes: [
          {
            stream,
            expectedVersion: 'any',
            events: [
              {
                type: 'plugin.tried',
                actor: actorOf(meta.caller),
                dialect: plugin.dialect,
                hook: body.hook,
                pluginId: id,
                pluginVersion: plugin.version,
                pluginRevision: plugin.revision,
                durationMs: Math.round(answer.durationMs),
                outcome: answer.outcome,
                data: asData(tried),
              },
            ],
          },
        ],
        blobs: envelope.blobs(),
        kept: { stream, status: 200, note: {} },
        answer,
      }),
    );
  }

  protected override async replay({ meta }: TryPlugin, { result, last }: DoneCommand): Promise<TrialAnswer> {
    const events = await this.log.events(meta.account, result.stream);
    const tried = events.find(({ position }) => position === last);
    if (tried === undefined) throw new Error(`${result.stream} has no trial at ${String(last)}`);
    const { answer } = tried.event.data as unknown as Tried;
    return (await this.commands.open(meta.account, answer)) as unknown as TrialAnswer;
  }

  /** The dialect as the account follows it. */
  private dialectOf(account: string, plugin: PluginSnapshot): Dialect {
    const base = knownDialect(plugin.dialect);
    return base.profiles?.get(this.rules.profile(account, base.name) ?? '') ?? base;
  }

  private async tryOut(
    account: string,
    plugin: PluginSnapshot,
    dialect: Dialect,
    hook: string,
    opening: Extract<Opening, { kind: 'opened' }>,
  ): Promise<TrialAnswer> {
    // What a trial says goes to whoever asked for it: the plugin is given no secret to say.
    const ready = await openRealm(account, plugin, {
      sealing: this.sealing,
      secrets: namesOnly(this.secrets),
      dialectOf: knownDialect,
    });
    const trialId = uuidv7();
    const base = { trialId, pluginId: plugin.id, version: plugin.version, revision: plugin.revision, hook };
    if (ready.kind === 'not_loaded') return { ...base, ...notRun(ready.message) };
    const host = refusingHost();
    const handler = this.handlerOf(account, plugin, dialect, hook, opening);
    if (handler === null) return { ...base, ...notRun(null) };
    const outcome = await this.handled(account, trialId, plugin, dialect, hook, opening, ready, handler, host.onCall);
    return { ...base, ...readOutcome(dialect, hook, opening.value, outcome), ...host.seen() };
  }

  /** The handler that is tried: the first of the plugin's that this firing is for; null: none is. */
  private handlerOf(
    account: string,
    { id, findings }: PluginSnapshot,
    dialect: Dialect,
    hook: string,
    opening: Extract<Opening, { kind: 'opened' }>,
  ): string | null {
    if (dialect.arrange === undefined) return hook;
    const gates = this.rules.dialectRules(account, dialect.name, id).gates ?? {};
    const input = JSON.parse(opening.input) as JsonObject;
    const arranged = dialect.arrange({ hook, plugins: [{ id, registrations: findings.registrations, gates }], input });
    return arranged.find(({ applies }) => applies)?.handler ?? null;
  }

  private async handled(
    account: string,
    trialId: string,
    plugin: PluginSnapshot,
    dialect: Dialect,
    hook: string,
    opening: Extract<Opening, { kind: 'opened' }>,
    ready: ReadyRealm,
    handler: string,
    onCall: (call: GuestCall) => Promise<Refused>,
  ): Promise<HandlerOutcome> {
    const view = dialect.hostView(hook, JSON.parse(opening.input) as JsonObject, 0);
    const timeoutMs = timeoutOf(plugin.timeouts, hook, dialect, this.rules.timeoutMs(account, dialect.name));
    const running = this.sandbox.run({
      account,
      invocationId: trialId,
      input: opening.input,
      handlers: [
        {
          realm: { ...ready.realm, isolation: 'fresh' },
          handler,
          timeoutMs,
          ceilingMs: timeoutMs,
          args: dialect.args(hook, view),
          advances: false,
          stopsOn: [],
        },
      ],
      onCall,
      pausingMembers: [],
    });
    try {
      return await running.result(0);
    } finally {
      running.stop();
    }
  }
}

const openingOf = (dialect: Dialect, plugin: PluginSnapshot, { hook, context, event }: TrialBody) => {
  if (!dialect.entries.has(hook)) {
    throw new Problem(422, 'unknown_hook', `The dialect ${dialect.name} has no such hook.`, [
      { pointer: '/hook', reason: `is not a hook of ${dialect.name}` },
    ]);
  }
  if (!plugin.findings.hooks.includes(hook)) {
    throw new Problem(422, 'no_handler', 'The plugin has no handler for this hook.', [
      { pointer: '/hook', reason: `the plugin handles ${plugin.findings.hooks.join(', ') || 'no hook'}` },
    ]);
  }
  const own = dialect.name === 'kohaku' ? { input: context } : event === undefined ? { context } : { event, context };
  const opening = dialect.open(hook, own);
  if (opening.kind === 'opened') return opening;
  throw new Problem(422, 'invalid_arguments', 'The context does not fit the hook; nothing was run.', opening.faults);
};

type Refused =
  | { readonly kind: 'error'; readonly code: string; readonly message: string }
  | { readonly kind: 'value'; readonly json: string };

/** A host that writes down what it is asked and does nothing. */
const refusingHost = () => {
  const logs: Json[] = [];
  const refusedCalls: string[] = [];
  const onCall = ({ member, args }: GuestCall): Promise<Refused> => {
    if (member === 'log') {
      if (logs.length < keptMost) logs.push(JSON.parse(args ?? '[]') as Json);
      return Promise.resolve({ kind: 'value', json: 'null' });
    }
    if (refusedCalls.length < keptMost) refusedCalls.push(member);
    return Promise.resolve({ kind: 'error', code: 'trial', message: 'host calls are refused in a trial' });
  };
  return { onCall, seen: () => ({ logs, refusedCalls }) };
};

type Ending = Omit<TrialAnswer, 'trialId' | 'pluginId' | 'version' | 'revision' | 'hook' | 'logs' | 'refusedCalls'>;

const notRun = (message: string | null): Ending & Pick<TrialAnswer, 'logs' | 'refusedCalls'> => ({
  outcome: 'not_run',
  cause: message === null ? 'not_applicable' : 'not_loaded',
  reason: null,
  value: null,
  warnings: message === null ? [] : [{ code: 'plugin_load_failed', detail: message }],
  durationMs: 0,
  logs: [],
  refusedCalls: [],
});

const readOutcome = (dialect: Dialect, hook: string, value: Json, outcome: HandlerOutcome): Ending => {
  switch (outcome.kind) {
    case 'returned': {
      const { verdict, warnings } = dialect.read(hook, outcome.raw, value);
      return {
        outcome: verdict.kind === 'contributed' ? (verdict.as ?? 'rewrote') : verdict.kind,
        cause: verdict.kind === 'skipped' || verdict.kind === 'not_run' ? verdict.cause : null,
        reason: verdict.kind === 'cancelled' ? verdict.reason : null,
        value: valueAfter(verdict, value),
        warnings,
        durationMs: outcome.durationMs,
      };
    }
    case 'failed':
      return {
        outcome: 'skipped',
        cause: outcome.cause,
        reason: null,
        value,
        warnings: [...dialect.readNotes(hook, outcome.notes), dialect.failure(outcome.cause, outcome.detail)],
        durationMs: outcome.durationMs,
      };
    case 'not_loaded':
      return notRun(outcome.message);
    case 'not_run':
      return notRun('the sandbox did not run it');
  }
};

const valueAfter = (verdict: ReturnType<Dialect['read']>['verdict'], value: Json): Json => {
  if (verdict.kind === 'cancelled') return null;
  if (verdict.kind === 'rewrote') return verdict.value;
  if (verdict.kind === 'claimed' || verdict.kind === 'contributed') return (verdict.value ?? null) as Json;
  return value;
};

const triedData = (body: TrialBody, answer: TrialAnswer, envelope: Envelope): Tried => ({
  trialId: answer.trialId,
  hook: body.hook,
  context: envelope.seal(body.event === undefined ? body.context : { event: body.event, context: body.context }),
  answer: envelope.seal(asData(answer)),
  outcome: answer.outcome,
  cause: answer.cause,
  warnings: answer.warnings.map(({ code, detail }) => ({
    code,
    detail: detail === null ? null : envelope.seal(detail),
  })),
  refusedCalls: answer.refusedCalls.length,
});

@ApiTags('plugins')
@Controller('v1/accounts/:account/plugins')
export class TryPluginRoute {
  constructor(@Inject(CommandBus) private readonly bus: CommandBus) {}

  @Post(':plugin/trial')
  @HttpCode(200)
  @Allow('admin')
  @ApiOperation({
    summary: 'Run one plugin on a context: a fresh realm, no host, nothing changed',
    description: 'In place of a secret its configuration has `[secret NAME]`.',
  })
  @ApiOkResponse({ description: 'What its handler made of it; content shows by the key.', schema: trialSchema })
  @Problems(404, 422)
  async attempt(
    @Meta() meta: CommandMeta,
    @PathId('plugin', 'The plugin.') id: string,
    @Body() body: TrialBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<TrialView> {
    return shownTo(meta.caller, await replayable(this.bus, new TryPlugin(meta, id, body), reply));
  }
}
