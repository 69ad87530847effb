import { Inject, Injectable } from '@nestjs/common';
import { compile, derivePermissions, type Dialect, type DialectRules, type LoadReport } from '#dialects';
import { escapePointer, Problem, SANDBOX, type Caller, type FieldFault } from '#platform';
import { maxSourceBytes, sourceBytes, sourceDigest, type PluginSource } from '#plugins';
import { digestOf, type Json, type LoadFindings, type PluginSnapshot } from '#record';
import type { LoadOutcome, Sandbox } from '#sandbox';
import { sourcePointer } from './plugin-fields.js';
import { knownDialect } from './plugin-rules.js';
import { fileNameOf, guestOf, registeredNames } from './realms.js';
import { faultyPlugin } from './refusals.js';
import { resolveSecrets, secretNames, SecretValues } from './secrets.js';

/** Longest time that a source may take to be evaluated, ms. */
const loadBudgetMs = 5000;

/** A source that was compiled and evaluated once. */
export interface LoadedSource {
  readonly source: PluginSource;
  readonly sourceDigest: string;
  readonly language: PluginSnapshot['code']['language'];
  readonly compiled: string;
  readonly compiledDigest: string;
  readonly compiler: string | null;
  readonly findings: LoadFindings;
}

/** What is loaded, and with what it runs. */
export interface LoadOrder {
  readonly account: string;
  readonly id: string;
  readonly version: string;
  readonly dialect: PluginSnapshot['dialect'];
  readonly language: PluginSnapshot['code']['language'];
  readonly source: PluginSource;
  readonly config: Json;
  /** Null grants what the source asks for. */
  readonly permissions: readonly string[] | null;
  readonly messages: Messages;
  /** How the account follows the dialect. */
  readonly rules?: DialectRules;
  /** Kohaku: the class that is the plugin, and the name it is registered under. */
  readonly className?: string;
  readonly pluginName?: string;
}

/**
 * Whether a refusal says what the code threw: `withheld` where the code or its configuration is content that the caller
 * may not see. A configuration with secrets withholds it always.
 */
export type Messages = 'shown' | 'withheld';

/** For code or a configuration that stands already. */
export const messagesTo = ({ content }: Pick<Caller, 'content'>): Messages =>
  content === 'full' ? 'shown' : 'withheld';

/** Compiled code that is evaluated again, with another configuration or other permissions. */
export interface ReloadOrder {
  readonly account: string;
  readonly plugin: PluginSnapshot;
  readonly compiled: string;
  readonly config: Json;
  readonly permissions: readonly string[];
  readonly messages: Messages;
  readonly rules?: DialectRules;
}

/** Compiles sources and evaluates them once in the sandbox, before anything of them is stored. */
@Injectable()
export class SourceLoader {
  constructor(
    @Inject(SANDBOX) private readonly sandbox: Sandbox,
    @Inject(SecretValues) private readonly secrets: SecretValues,
  ) {}

  /** Throws 422, with line and column, for a source that does not parse, throws or hangs at load, or registers nothing. */
  async load(order: LoadOrder): Promise<LoadedSource> {
    if (sourceBytes(order.source) > maxSourceBytes) {
      throw faultyPlugin([
        { pointer: sourcePointer(order.source), reason: `must be at most ${String(maxSourceBytes)} bytes` },
      ]);
    }
    const dialect = knownDialect(order.dialect);
    if (order.language === 'python' && order.dialect !== 'kohaku') {
      throw faultyPlugin([{ pointer: '/language', reason: `is not a language of ${order.dialect}` }]);
    }
    checkManifest(dialect, order);
    const compiled = await compile(order.source, order.language, dialect.bundling);
    if (compiled.kind === 'failed') throw badSource('does_not_parse', order.source, compiled);
    const requested = order.language === 'python' ? [] : derivePermissions(compiled.code);
    const evaluated = await this.evaluate(dialect, {
      ...order,
      code: compiled.code,
      permissions: order.permissions ?? requested,
      pointer: sourcePointer(order.source),
      compiler: compiled.compiler,
    });
    const report = order.language === 'python' ? evaluated : examined(dialect, evaluated, compiled.code);
    return {
      source: order.source,
      sourceDigest: sourceDigest(order.source),
      language: order.language,
      compiled: compiled.code,
      compiledDigest: digestOf(compiled.code),
      compiler: compiled.compiler,
      findings: { ...findingsOf(report), requestedPermissions: [...requested].sort() },
    };
  }

  /** What installed code registers with another configuration or other permissions. Throws 422 as `load` does. */
  async reload({
    account,
    plugin,
    compiled,
    config,
    permissions,
    messages,
    rules,
  }: ReloadOrder): Promise<LoadFindings> {
    const report = await this.evaluate(knownDialect(plugin.dialect), {
      account,
      id: plugin.id,
      version: plugin.version,
      code: compiled,
      config,
      permissions,
      messages,
      pointer: '/config',
      compiler: plugin.code.compiler,
      language: plugin.code.language,
      ...registeredNames(plugin),
      ...(rules === undefined ? {} : { rules }),
    });
    return {
      ...findingsOf(examined(knownDialect(plugin.dialect), report, compiled)),
      requestedPermissions: plugin.findings.requestedPermissions,
    };
  }

  private async evaluate(dialect: Dialect, evaluation: Evaluation): Promise<LoadReport> {
    const { account, id, code, permissions, pointer } = evaluation;
    const config = await this.configFor(account, evaluation.config);
    const { language, className, pluginName } = evaluation;
    const setup = dialect.setup({
      permissions,
      config,
      pluginId: id,
      ...(className === undefined ? {} : { className }),
      ...(pluginName === undefined ? {} : { pluginName }),
    });
    const realm = {
      account,
      pluginId: id,
      digest: digestOf(`load\n${code}\n${setup}`),
      code,
      fileName: fileNameOf(evaluation),
      ...guestOf(dialect, language),
      setup,
      isolation: 'fresh',
    } as const;
    const outcome = await this.sandbox.load(realm, loadBudgetMs);
    const quotes = evaluation.messages === 'shown' && secretNames(evaluation.config).length === 0;
    if (outcome.kind === 'failed') {
      throw failedLoad(quotes ? outcome : { ...outcome, message: '' }, evaluation);
    }
    const report = dialect.readReport(outcome.report, evaluation.rules);
    checkIds(report, id, pointer);
    if (isEmpty(report)) {
      throw registersNothing(quotes ? report.warnings : [], pointer);
    }
    return report;
  }

  private async configFor(account: string, config: Json): Promise<Json> {
    const resolved = await resolveSecrets(config, (name) => this.secrets.read(account, name));
    if (resolved.kind === 'resolved') return resolved.config;
    throw faultyPlugin([
      { pointer: '/config', reason: `refers to secrets that are not set: ${resolved.names.join(', ')}` },
    ]);
  }
}

interface Evaluation {
  readonly account: string;
  readonly id: string;
  readonly version: string;
  readonly code: string;
  readonly config: Json;
  readonly permissions: readonly string[];
  readonly messages: Messages;
  readonly pointer: string;
  readonly compiler: string | null;
  readonly language: PluginSnapshot['code']['language'];
  readonly rules?: DialectRules;
  readonly className?: string;
  readonly pluginName?: string;
}

/** What a load keeps of a report. */
const findingsOf = ({ hooks, gated, warnings, registrations }: LoadReport): LoadReport => ({
  hooks,
  gated,
  warnings,
  registrations,
});

/** A report with what the code is warned of for how it is written. */
const examined = (dialect: Dialect, report: LoadReport, code: string): LoadReport => ({
  ...report,
  warnings: [...report.warnings, ...(dialect.examine?.(code, report.hooks) ?? [])],
});

/** Nothing at all: neither a hook nor anything that is accepted without effect. */
const isEmpty = ({ hooks, warnings, registersMore }: LoadReport): boolean =>
  hooks.length === 0 &&
  registersMore !== true &&
  !warnings.some(({ code }) => code === 'unknown_hook' || code === 'no_meaning');

const checkManifest = (dialect: Dialect, { id, source }: Pick<LoadOrder, 'id' | 'source'>): void => {
  if (dialect.manifest === undefined || !('files' in source)) return;
  const { file } = dialect.manifest;
  const manifest = dialect.manifest.read(new Map(Object.entries(source.files)));
  const pointer = `/files/${escapePointer(file)}`;
  if (manifest.kind === 'faulty') throw faultyPlugin([{ pointer, reason: manifest.reason }]);
  const declared = manifest.manifest.id;
  if (declared !== undefined && declared !== id) throw faultyPlugin([{ pointer, reason: otherId(declared) }]);
};

const checkIds = ({ declaredIds = [] }: LoadReport, id: string, pointer: string): void => {
  const other = declaredIds.find((declared) => declared !== id);
  if (other !== undefined) throw faultyPlugin([{ pointer, reason: otherId(other) }]);
};

const otherId = (id: string): string =>
  `says that the plugin's id is ${JSON.stringify(cut(id))}: install it under that id`;

interface Place {
  readonly message: string;
  readonly line: number | null;
  readonly column: number | null;
  readonly file?: string | null;
}

const badSource = (code: string, source: PluginSource, { file, ...place }: Place): Problem => {
  const named = 'files' in source && file !== undefined && file !== null && Object.hasOwn(source.files, file);
  const pointer = named ? `/files/${escapePointer(file)}` : sourcePointer(source);
  return sourceProblem(code, 'does not parse', pointer, place);
};

/** Places in code that was compiled are places of what came out: what ran, as `…/source` shows it. */
const failedLoad = (
  failed: Extract<LoadOutcome, { kind: 'failed' }>,
  { pointer, compiler }: Pick<Evaluation, 'pointer' | 'compiler'>,
): Problem => {
  const outcome = { ...failed, file: compiler === null ? null : `the code that ${compiler} made of it` };
  switch (outcome.cause) {
    case 'syntax':
      return sourceProblem('does_not_parse', 'does not parse', pointer, outcome);
    case 'threw':
      return sourceProblem('throws_at_load', 'throws at load', pointer, outcome);
    case 'timed_out':
      return sourceProblem('hangs_at_load', `is not loaded after ${String(loadBudgetMs)} ms`, pointer, outcome);
    case 'crashed':
      return sourceProblem('crashes_at_load', 'ends the sandbox at load', pointer, outcome);
  }
};

const sourceProblem = (
  code: string,
  words: string,
  pointer: string,
  { message, line, column, file }: Place,
): Problem => {
  const place = line === null ? '' : ` at line ${String(line)}${column === null ? '' : `, column ${String(column)}`}`;
  const within = file === undefined || file === null ? '' : ` in ${file}`;
  const fault: FieldFault = {
    pointer,
    reason: `${words}${place}${within}${message === '' ? '' : `: ${cut(message)}`}`,
    line,
    column,
  };
  return new Problem(422, code, `The source ${words}${place}. Nothing was stored.`, [fault]);
};

/** What a source throws may be of any length. */
const cut = (message: string): string => (message.length > 500 ? `${message.slice(0, 500).toWellFormed()}…` : message);

const registersNothing = (warnings: LoadReport['warnings'], pointer: string): Problem => {
  const found = warnings.map(({ code, detail }) => (detail === undefined ? code : `${code}: ${detail}`));
  return new Problem(422, 'registers_nothing', 'The source registers no hook. Nothing was stored.', [
    { pointer, reason: ['registers no hook', ...found].join('; ') },
  ]);
};
