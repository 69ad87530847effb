import { Inject, Injectable } from '@nestjs/common';
import type { DialectRules } from '#dialects';
import { actorOf, Problem, requireMatch, SEALING, type AccountCommand, type DoneCommand } from '#platform';
import {
  configDigest,
  decide,
  judgeInstall,
  sourceDigest,
  sourceJson,
  type PluginCommand,
  type PluginFault,
  type PluginHistory,
  type PluginSource,
  type PluginState,
} from '#plugins';
import { pluginStream, type Json, type NewEvent, type PluginSnapshot, type Sealed, type StoredCode } from '#record';
import type { Envelope, Sealing } from '#sealing';
import { AccountDirectory } from '../accounts/account-directory.js';
import { AccountRules } from '../accounts/account-rules.js';
import { configFaults } from './config-check.js';
import { pluginEtag, type PluginAnswer } from './plugin-answer.js';
import { InstallPluginBody, sourceOf, sourcePointer } from './plugin-fields.js';
import { InstallScan, type InstallScanned, type ScanCandidate } from './install-scan.js';
import { PluginLog, type Change } from './plugin-log.js';
import { factsOf, knownDialect } from './plugin-rules.js';
import { faultyPlugin, noPlugin, problemOfRefusal } from './refusals.js';
import { secretPointers } from './secrets.js';
import { SourceLoader, type LoadedSource } from './source-loader.js';

/** A plugin that was loaded and checked, before anything of it is sealed. */
export interface PreparedPlugin {
  readonly body: InstallPluginBody;
  readonly loaded: LoadedSource;
}

/** How a command on one plugin is answered, why it was sent, and on which revision it insists. */
interface Terms {
  readonly status: number;
  readonly reason: string | null | undefined;
  readonly ifMatch?: string | undefined;
  /** The scan that let its code pass. */
  readonly scan?: InstallScanned | null;
}

/** What a command asks of a plugin, given what is there; sealed values go through the append's envelope. */
type Ask = (history: PluginHistory, envelope: Envelope) => PluginCommand | Promise<PluginCommand>;

/** What the commands on plugins share: checks at the edge, one decision per write, and the answer from the events. */
@Injectable()
export class PluginCommands {
  constructor(
    @Inject(PluginLog) private readonly log: PluginLog,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(SourceLoader) private readonly loader: SourceLoader,
    @Inject(AccountRules) private readonly rules: AccountRules,
    @Inject(AccountDirectory) private readonly directory: AccountDirectory,
    @Inject(InstallScan) private readonly scans: InstallScan,
  ) {}

  /** Refuses early what the decider would refuse after the work of loading. */
  async requireAbsent(account: string, id: string): Promise<void> {
    const { history } = await this.log.plugin(account, id);
    if (history.current !== null) throw problemOfRefusal({ kind: 'refused', refusal: 'exists' }, id);
  }

  /** How the account follows a plugin's dialect. */
  dialectRules(account: string, { dialect, id }: Pick<PluginSnapshot, 'dialect' | 'id'>): DialectRules {
    return this.rules.dialectRules(account, dialect, id);
  }

  /** The plugin that is installed; 404 when none is. */
  async installed(account: string, id: string): Promise<PluginSnapshot> {
    const { history } = await this.log.plugin(account, id);
    if (history.current === null) throw noPlugin(id);
    return history.current;
  }

  /** Loads and checks what a body brings; nothing is stored. Throws 422 with pointers into the body. */
  async prepare(account: string, asked: InstallPluginBody): Promise<PreparedPlugin> {
    const given = sourceOf(asked);
    if (given.kind === 'faulty') throw faultyPlugin([given.fault]);
    const body = withManifest(asked, given.source);
    await this.judge(account, body.id, given.source, { plugin: '/id', source: sourcePointer(given.source) });
    await checkConfig(body.configSchema ?? null, body.config ?? {});
    checkKohaku(body);
    const loaded = await this.loader.load({
      account,
      id: body.id,
      version: body.version ?? defaultVersion,
      dialect: body.dialect,
      language: body.language ?? 'javascript',
      source: given.source,
      config: body.config ?? {},
      permissions: body.permissions ?? null,
      messages: 'shown',
      rules: this.rules.dialectRules(account, body.dialect, body.id),
      ...(body.class === undefined ? {} : { className: body.class }),
      ...(body.pluginName === undefined ? {} : { pluginName: body.pluginName }),
    });
    return { body, loaded };
  }

  /**
   * Refuses what the account's policy does not let in: judged before every install, version and rollback. A text is a
   * digest. `at`: where in the request the plugin and its source are named.
   */
  async judge(
    account: string,
    pluginId: string,
    source: PluginSource | string,
    at: { readonly plugin: string; readonly source: string },
  ): Promise<void> {
    const digest = typeof source === 'string' ? source : sourceDigest(source);
    // A policy that another replica was told a moment ago counts already.
    await this.directory.catchUp();
    const verdict = judgeInstall(this.rules.settings(account).installPolicy, { pluginId, sourceDigest: digest });
    if (verdict.kind === 'allowed') return;
    const { about, reason } = verdict;
    throw new Problem(422, 'refused_by_policy', `Not done: ${reason}.`, [{ pointer: at[about], reason }]);
  }

  /**
   * Asks the account's plugins about what comes in (`before_install`), behind its policy. Null: nobody is there to ask.
   * Throws 422 where one of them stops it.
   */
  scan(
    command: AccountCommand<unknown>,
    candidate: ScanCandidate,
    invocationId?: string,
  ): Promise<InstallScanned | null> {
    return this.scans.pass(command, candidate, invocationId);
  }

  /** What earlier scans found. */
  earlierScan(account: string, invocationId: string): Promise<InstallScanned> {
    return this.scans.earlier(account, invocationId);
  }

  /** What a plugin's revision was; undefined where it never had it. */
  async revision(account: string, id: string, revision: number): Promise<PluginSnapshot | undefined> {
    const { history } = await this.log.plugin(account, id);
    return history.revisions.get(revision);
  }

  /** The state that an install begins with. */
  seal({ body, loaded }: PreparedPlugin, envelope: Envelope): PluginState {
    const config = body.config ?? {};
    return {
      id: body.id,
      name: body.name ?? body.id,
      dialect: body.dialect,
      version: body.version ?? defaultVersion,
      enabled: body.enabled ?? true,
      priority: body.priority ?? null,
      failureMode: body.failureMode ?? 'open',
      mode: body.mode ?? 'enforce',
      isolation: body.isolation ?? 'warm',
      timeouts: body.timeouts ?? {},
      permissions: [...new Set(body.permissions ?? loaded.findings.requestedPermissions)].sort(),
      config: envelope.seal(config),
      configDigest: configDigest(config),
      configSchema: schemaOf(body, envelope),
      code: sealCode(loaded, envelope),
      findings: loaded.findings,
    };
  }

  /** Decides on one plugin and writes it; `If-Match` is checked on the very state that is decided on. */
  decide(command: AccountCommand<PluginAnswer>, id: string, terms: Terms, ask: Ask): Promise<PluginAnswer> {
    const { account } = command.meta;
    return this.log.commit(command, async (): Promise<Change<PluginAnswer>> => {
      const { history, version } = await this.log.plugin(account, id);
      if (history.current !== null) requireMatch(terms.ifMatch, pluginEtag(history.current));
      else if (terms.ifMatch !== undefined) throw noPlugin(id);
      const envelope = await this.sealing.envelope(account, { kind: 'account' });
      const decision = decide(await ask(history, envelope), history, {
        actor: actorOf(command.meta.caller),
        reason: sealReason(terms.reason, envelope),
        factsOf,
      });
      if (decision.kind === 'refused') throw problemOfRefusal(decision, id);
      // An uninstall leaves nothing: its answer is what was there.
      const plugin = decision.after ?? history.current;
      if (plugin === null) throw noPlugin(id);
      const scan = terms.scan ?? null;
      const events = scan === null ? decision.events : causedBy(scan, decision.events);
      const stream = pluginStream(id);
      return {
        writes: events.length === 0 ? [] : [{ stream, expectedVersion: version, events }],
        blobs: events.length === 0 ? [] : envelope.blobs(),
        kept: {
          stream,
          status: terms.status,
          note: { id, revision: plugin.revision, ...(scan === null ? {} : { scan: scan.invocationId }) },
        },
        answer: { plugin, ...(scan === null ? {} : { scan }) },
      };
    });
  }

  /** The answer of a command that was done before: a revision is one state for ever. */
  async replay(account: string, { result }: DoneCommand): Promise<PluginAnswer> {
    const { id, revision, scan } = result.note ?? {};
    const { history } = await this.log.plugin(account, String(id));
    const plugin = history.revisions.get(Number(revision));
    if (plugin === undefined) throw new Error(`${result.stream} has no revision ${String(revision)}`);
    return { plugin, ...(typeof scan === 'string' ? { scan: await this.scans.earlier(account, scan) } : {}) };
  }

  /** The compiled text of what is installed. */
  async compiledText(account: string, plugin: PluginSnapshot): Promise<string> {
    const text = await this.open(account, plugin.code.compiled);
    if (typeof text === 'string') return text;
    throw new Error(`the compiled code of ${pluginStream(plugin.id)} is not text`);
  }

  /** What is under a seal that only erasure takes away; 409 once it did. */
  async open(account: string, sealed: Sealed): Promise<Json> {
    const opened = await this.sealing.open(account, sealed);
    if (opened.kind === 'open') return opened.value;
    throw new Problem(409, 'erased', "The plugin's code or configuration was erased. Install it again.");
  }
}

/** What comes in names the scan that let it. */
export const causedBy = ({ invocationId }: InstallScanned, events: readonly NewEvent[]): readonly NewEvent[] =>
  events.map((event) => ({ ...event, cause: invocationId }));

/** A candidate of what a body brings. */
export const candidateOf = ({ body, loaded }: PreparedPlugin, mode: ScanCandidate['mode']): ScanCandidate => ({
  id: body.id,
  version: body.version ?? defaultVersion,
  language: loaded.language,
  source: loaded.source,
  mode,
});

/** Fields that only Kohaku has. */
const checkKohaku = ({ dialect, class: className, pluginName }: InstallPluginBody): void => {
  if (dialect === 'kohaku') return;
  const given = Object.entries({ class: className, pluginName }).filter(([, value]) => value !== undefined);
  if (given.length === 0) return;
  throw faultyPlugin(given.map(([field]) => ({ pointer: `/${field}`, reason: `is no field of ${dialect} plugins` })));
};

const schemaOf = ({ configSchema }: InstallPluginBody, envelope: Envelope) =>
  configSchema === undefined || configSchema === null ? null : envelope.seal(configSchema);

/** What the manifest among the files says counts where the body says nothing. */
const withManifest = (body: InstallPluginBody, source: PluginSource): InstallPluginBody => {
  const manifest =
    'files' in source ? knownDialect(body.dialect).manifest?.read(new Map(Object.entries(source.files))) : undefined;
  const schema = manifest?.kind === 'read' ? manifest.manifest.configSchema : undefined;
  return schema === undefined || body.configSchema !== undefined
    ? body
    : Object.assign(new InstallPluginBody(), body, { configSchema: schema });
};

const defaultVersion = '0.0.0';

/** A reason as the events keep it. */
export const sealReason = (reason: string | null | undefined, envelope: Envelope) =>
  reason === undefined || reason === null || reason === '' ? null : envelope.seal(reason);

/** A version's code as the events keep it. */
export const sealCode = (loaded: LoadedSource, envelope: Envelope): StoredCode => ({
  language: loaded.language,
  source: envelope.seal(sourceJson(loaded.source)),
  sourceDigest: loaded.sourceDigest,
  compiled: envelope.seal(loaded.compiled),
  compiledDigest: loaded.compiledDigest,
  compiler: loaded.compiler,
});

/** Checks a configuration by its schema. What a secret stands for is not known here and fits anywhere. */
export const checkConfig = async (schema: Json, config: Json): Promise<void> => {
  const secrets = secretPointers(config).map((pointer) => `/config${pointer}`);
  const isSecret = ({ pointer }: PluginFault): boolean =>
    secrets.some((secret) => pointer === secret || pointer.startsWith(`${secret}/`));
  const faults = (await configFaults(schema, config)).filter((fault) => !isSecret(fault));
  if (faults.length > 0) throw faultyPlugin(faults);
};
