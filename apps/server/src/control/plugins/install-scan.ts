import { Inject, Injectable } from '@nestjs/common';
import { dialectOf, type Dialect } from '#dialects';
import type { EventStore } from '#event-store';
import { answerFromEvents, type Answer } from '#firing';
import {
  actorOf,
  escapePointer,
  EVENT_STORE,
  Problem,
  SEALING,
  TOKEN_KEY,
  type AccountCommand,
  type FieldFault,
} from '#platform';
import { chainFor, type PluginSource } from '#plugins';
import { digestOf, invocationStream, type Json, type JsonObject } from '#record';
import type { Sealing } from '#sealing';
import { readOrder, type FiringOrder } from '../../gateway/firing-order.js';
import { HookFiring } from '../../gateway/hook-firing.js';
import { newId } from '../../gateway/new-id.js';
import { AccountRules } from '../accounts/account-rules.js';
import { ActivePlugins } from './active-plugins.js';

/** What is about to come in: code under a plugin's id. */
export interface ScanCandidate {
  readonly id: string;
  readonly version: string;
  readonly language: string;
  readonly source: PluginSource;
  /** `update`: the id is installed, and gets other code. */
  readonly mode: 'install' | 'update';
}

/** What a plugin of the account found in a candidate. */
export interface InstallFinding {
  readonly ruleId: string | null;
  readonly severity: string | null;
  readonly file: string | null;
  readonly line: number | null;
  readonly message: string | null;
}

/** A scan that let its candidate pass: the invocation of `before_install`, and what it found. */
export interface InstallScanned {
  readonly pluginId: string;
  readonly invocationId: string;
  readonly findings: readonly InstallFinding[];
}

const hook = 'before_install';

/** The folder in which a candidate's files are said to be: there is none on a disk. */
const stage = '/plugin';

/**
 * Asks the account's OpenClaw plugins about everything that an administrator brings in, after the account's policy and
 * before anything is stored (openclaw.md §18, §22). It fails closed: a handler that threw, ran out of time or crashed
 * stops the install as a block does. Each scan is an invocation of `before_install` on record, opened before it runs.
 */
@Injectable()
export class InstallScan {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(TOKEN_KEY) private readonly tokenKey: Uint8Array,
    @Inject(HookFiring) private readonly firing: HookFiring,
    @Inject(ActivePlugins) private readonly active: ActivePlugins,
    @Inject(AccountRules) private readonly rules: AccountRules,
  ) {}

  /**
   * Null: no plugin of the account is there to be asked. Throws 422 where one of them stops it, or could not decide.
   * A command that brings in several names another `invocationId` for each behind the first.
   */
  async pass(
    { meta, claim, invocationId: own }: AccountCommand<unknown>,
    candidate: ScanCandidate,
    invocationId = own ?? newId(),
  ): Promise<InstallScanned | null> {
    const { account, caller } = meta;
    // What another replica installed a moment ago is asked already.
    await this.active.refresh(account);
    const { set } = await this.active.get(account);
    const { places } = chainFor(set, 'openclaw', hook);
    const base = openclaw();
    if (places.length === 0) return null;
    const profile = this.rules.profile(account, base.name);
    const running = await this.firing.start(
      {
        account,
        actor: actorOf(caller),
        order: orderFor(base, profile, candidate),
        invocationId,
        attempt: claim?.attempt ?? 1,
        previousInvocationId: claim?.previousInvocationId ?? null,
      },
      [],
    );
    // A scan takes as long as its plugins take: whoever dies in the middle leaves it on record.
    await running.keepOpening();
    const answer = await running.answer;
    if (answer.outcome === 'cancelled') throw stopped(answer, candidate);
    return { pluginId: candidate.id, invocationId, findings: findingsIn(answer.value) };
  }

  /** What an earlier scan found, from its events; of one that was erased or purged only that it was. */
  async earlier(account: string, invocationId: string): Promise<InstallScanned> {
    const events = await this.store.readStream(account, invocationStream(invocationId));
    const answer = await answerFromEvents(events, {
      tokenKey: this.tokenKey,
      open: async (sealed) => {
        const opened = await this.sealing.open(account, sealed);
        return opened.kind === 'open' ? opened.value : null;
      },
    });
    const target = events[0]?.event.target ?? '';
    return { pluginId: target, invocationId, findings: findingsIn(answer?.value ?? null) };
  }
}

const openclaw = (): Dialect => {
  const dialect = dialectOf('openclaw');
  if (dialect === undefined) throw new Error('this program runs no OpenClaw plugins');
  return dialect;
};

/** Every handler sees the texts; the record has their digests, as the install's own event has the code. */
const orderFor = (base: Dialect, profile: string | null, candidate: ScanCandidate): FiringOrder => {
  const files = filesOf(candidate);
  const event = eventOf(candidate, files);
  const context = { targetType: 'plugin', requestKind: event.request.kind, origin };
  const order = readOrder(base, hook, { event: asJson({ ...event, files }), context }, profile);
  const digests = Object.fromEntries(Object.entries(files).map(([path, text]) => [path, `sha256:${digestOf(text)}`]));
  const recordedInput = JSON.stringify({ event: { ...event, files: digests }, context });
  return { ...order, opening: { ...order.opening, recordedInput } };
};

/** Where installs of ours come from, as the host's events say it. */
const origin = 'hookledger';

const filesOf = ({ source, language }: ScanCandidate): Readonly<Record<string, string>> => {
  if ('files' in source) return source.files;
  const end = language === 'typescript' ? 'ts' : language === 'python' ? 'py' : 'js';
  return { [`plugin.${end}`]: source.source };
};

const eventOf = (candidate: ScanCandidate, files: Readonly<Record<string, string>>) => {
  const { id, version, source, mode } = candidate;
  const isFolder = 'files' in source;
  const [only] = Object.keys(files);
  const manifest = named(files['openclaw.plugin.json']);
  const pack = named(files['package.json']);
  return {
    targetType: 'plugin',
    targetName: id,
    sourcePath: isFolder ? stage : `${stage}/${only ?? ''}`,
    sourcePathKind: isFolder ? 'directory' : 'file',
    origin,
    request: { kind: isFolder ? 'plugin-dir' : 'plugin-file', mode, requestedSpecifier: `${id}@${version}` },
    builtinScan: { status: 'ok', scannedFiles: 0, critical: 0, warn: 0, info: 0, findings: [] },
    plugin: {
      pluginId: id,
      contentType: isFolder ? (pack === null ? 'bundle' : 'package') : 'file',
      ...(pack?.name === undefined ? {} : { packageName: pack.name }),
      ...(manifest?.id === undefined ? {} : { manifestId: manifest.id }),
      version,
      extensions: [isFolder ? source.entry : (only ?? '')],
    },
  };
};

const asJson = (value: unknown): Json => value as Json;

/** Name and id that a file of JSON says; null where it says nothing that can be read. */
const named = (text: string | undefined): { readonly id?: string; readonly name?: string } | null => {
  if (text === undefined) return null;
  try {
    const value = (JSON.parse(text) ?? {}) as { readonly id?: unknown; readonly name?: unknown };
    return {
      ...(typeof value.id === 'string' ? { id: value.id } : {}),
      ...(typeof value.name === 'string' ? { name: value.name } : {}),
    };
  } catch {
    return {};
  }
};

/** Most findings that an answer shows, and most of each of their texts; the record has all of them. */
const findingsMost = 100;
const textMost = 1000;

const findingsIn = (value: Json): readonly InstallFinding[] => {
  const found = isObject(value) ? value.findings : undefined;
  return Array.isArray(found) ? (found as readonly Json[]).filter(isObject).slice(0, findingsMost).map(finding) : [];
};

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const finding = ({ ruleId, severity, file, line, message }: JsonObject): InstallFinding => ({
  ruleId: text(ruleId),
  severity: text(severity),
  file: text(file),
  line: typeof line === 'number' ? line : null,
  message: text(message),
});

const text = (value: Json | undefined): string | null =>
  typeof value === 'string' ? value.slice(0, textMost).toWellFormed() : null;

const said = (reason: string | null | undefined): string | null => (reason === '' ? null : text(reason ?? undefined));

/** As the host says it: a plugin blocked it, or one of them could not decide. */
const stopped = (answer: Answer, candidate: ScanCandidate): Problem => {
  const { cancellation, invocationId } = answer;
  const findings = findingsIn(answer.value);
  const { code, reason } = verdictOf(answer);
  return new Problem(
    422,
    code,
    reason,
    [{ pointer: '', reason }, ...findings.map((one) => fault(one, candidate))],
    {},
    {
      pluginId: cancellation?.pluginId ?? null,
      invocationId,
      findings: asJson(findings),
    },
  );
};

const verdictOf = ({ cancellation, handlers }: Answer): { readonly code: string; readonly reason: string } => {
  const failed = handlers.find(({ outcome, cause }) => outcome === 'skipped' || cause === 'not_loaded');
  if (failed !== undefined || cancellation?.code === 'account_halted') {
    const why =
      failed === undefined ? 'the account is halted' : `plugin ${failed.pluginId}: ${failed.cause ?? 'failed'}`;
    return { code: 'security_scan_failed', reason: `Installation blocked because before_install hook failed: ${why}` };
  }
  return {
    code: 'security_scan_blocked',
    reason: said(cancellation?.reason) ?? 'Installation blocked by plugin hook',
  };
};

const fault = ({ ruleId, severity, file, line, message }: InstallFinding, { source }: ScanCandidate): FieldFault => {
  const own = 'files' in source && file !== null && Object.hasOwn(source.files, file);
  return {
    pointer: own ? `/files/${escapePointer(file)}` : '',
    reason: [severity, ruleId, message].filter((part) => part !== null).join(': '),
    line,
  };
};
