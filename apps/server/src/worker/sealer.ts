import { setTimeout as delay } from 'node:timers/promises';
import { Inject, Injectable, type BeforeApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { Counter, Gauge, type Registry } from 'prom-client';
import type { EventStore, Sql } from '#event-store';
import {
  CONFIG,
  errorFacts,
  EVENT_STORE,
  LOGGER,
  MASTER_KEY,
  METRICS,
  Readiness,
  SQL,
  type Logger,
  type PartState,
  type ServerConfig,
} from '#platform';
import type { RoundAccount } from '#proof';
import { rowTagKey, sameBytes } from '#proof';
import { asData, digestOf } from '#record';
import { LogKeys } from '../control/proofs/log-keys.js';
import { systemAccount } from '../control/accounts/directory-state.js';
import { CheckpointFolder, FolderProblem } from './checkpoint-folder.js';
import type { RoundOutcome } from './sealer-round.js';
import { SealerRounds } from './sealer-round.js';
import { readRefused, type TreeState } from './sealer-trees.js';

/** Events in one round; a round that is behind is followed by the next at once. */
const roundEvents = 10_000;

/** How often what was refused is looked at again, ms. */
const retryEveryMs = 30_000;

/**
 * Seals the log (events.md §5): follows it, refuses rows that nobody of this program wrote, keeps an RFC 6962 tree for
 * each account, signs checkpoints, and puts them outside the database too. Every replica with the role starts it; one
 * works at a time.
 */
@Injectable()
export class Sealer implements OnModuleInit, BeforeApplicationShutdown {
  private readonly rounds: SealerRounds;
  private readonly folder: CheckpointFolder;
  private readonly stopping = new AbortController();
  private running: Promise<void> = Promise.resolve();
  private outside: ReadonlyMap<string, RoundAccount> | null = null;
  private last: RoundOutcome | null = null;
  private failures = 0;
  private refusedAccounts = 0;
  private folderProblem: string | null = null;
  private lineOwed = true;
  private keysWritten = '';
  private retryAt = 0;
  private readonly alarmed = new Set<string>();
  private readonly signed: Counter;

  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SQL) private readonly sql: Sql,
    @Inject(CONFIG) private readonly config: ServerConfig,
    @Inject(LOGGER) private readonly logger: Logger,
    @Inject(MASTER_KEY) masterKey: Uint8Array,
    @Inject(Readiness) private readonly readiness: Readiness,
    @Inject(METRICS) private readonly metrics: Registry,
    private readonly keys: LogKeys,
  ) {
    const { sealMs, checkpointDir } = config;
    const tagKey = rowTagKey(masterKey);
    this.rounds = new SealerRounds({ sql, keys, tagKey, batch: roundEvents, sealMs, now: () => new Date() });
    this.folder = new CheckpointFolder(checkpointDir, keys.log);
    this.signed = new Counter({
      name: 'hookledger_checkpoints_signed_total',
      help: 'Checkpoints that this process signed.',
      registers: [metrics],
    });
  }

  onModuleInit(): void {
    this.readiness.register('sealer', () => Promise.resolve(this.state()));
    this.measure();
    this.running = this.run();
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopping.abort();
    await this.running;
  }

  private async run(): Promise<void> {
    while (!this.stopping.signal.aborted) {
      const started = performance.now();
      const more = await this.step();
      const rest = more ? 0 : this.config.sealMs - (performance.now() - started);
      if (rest > 0) await delay(rest, undefined, { signal: this.stopping.signal, ref: false }).catch(() => undefined);
    }
  }

  /** One round; whether the next should follow at once. */
  private async step(): Promise<boolean> {
    try {
      this.outside ??= await this.readOutside();
      const outside = this.outside ?? nothing;
      const now = Date.now();
      const retry = now >= this.retryAt;
      const outcome = await this.rounds.run({ outside, retry, line: this.lineWanted(now) });
      if (retry) this.retryAt = now + retryEveryMs;
      if (outcome.kind === 'sealed') await this.publish(outcome, now);
      await this.raiseAlarms(retry);
      if (this.failures > 0) this.logger.info({}, 'the sealer works again');
      this.failures = 0;
      this.last = outcome;
      return outcome.kind === 'sealed' && outcome.position < outcome.head;
    } catch (error) {
      this.failures += 1;
      if (this.failures === 1) this.logger.error(errorFacts(error), 'the sealer failed; it tries again');
      return false;
    }
  }

  private lineWanted(now: number): 'not-yet' | 'if-news' | 'owed' {
    if (!this.folder.isDue(now)) return 'not-yet';
    return this.lineOwed ? 'owed' : 'if-news';
  }

  /** What is known outside the database; null while the folder cannot be read, which keeps nothing from being sealed. */
  private async readOutside(): Promise<ReadonlyMap<string, RoundAccount> | null> {
    try {
      const newest = await this.folder.newest(this.keys.verifiers());
      return new Map(newest?.accounts.map((account) => [account.account, account]));
    } catch (error) {
      this.noteFolder(problemOf(error, 'read'));
      return null;
    }
  }

  /** After the commit: what is on the disk was stored before, and a line that could not be written is owed. */
  private async publish({ signed, line }: RoundOutcome & { kind: 'sealed' }, now: number): Promise<void> {
    this.signed.inc(signed);
    if (line === null) {
      this.lineOwed ||= signed > 0;
      return;
    }
    this.lineOwed = true;
    try {
      await this.writeKeys();
      if (signed > 0 || !this.isKnownOutside()) await this.folder.append(line, now);
      this.lineOwed = false;
      this.noteFolder(null);
    } catch (error) {
      this.noteFolder(problemOf(error, 'written'));
    }
  }

  private async writeKeys(): Promise<void> {
    const keys = this.keys.all();
    const text = JSON.stringify(keys.map(({ id, validFrom, validUntil }) => [id, validFrom, validUntil]));
    if (text === this.keysWritten) return;
    await this.folder.writeKeys(keys);
    this.keysWritten = text;
  }

  /** Whether the folder's newest line, as it was found at the start, says all that there is. */
  private isKnownOutside(): boolean {
    const now = this.rounds.checkpoints();
    if (this.outside?.size !== now.size) return false;
    return [...now.values()].every(({ account, size, root }) => {
      const known = this.outside?.get(account);
      return known?.size === size && sameBytes(known.root, root);
    });
  }

  private noteFolder(problem: string | null): void {
    if (problem !== null && problem !== this.folderProblem) this.logger.error({ problem }, 'checkpoints are not kept');
    if (problem === null && this.folderProblem !== null) this.logger.info({}, 'checkpoints are kept again');
    this.folderProblem = problem;
  }

  /** Each refusal is on record once, in the log of its account, whatever is restarted, repeated or raced. */
  private async raiseAlarms(again: boolean): Promise<void> {
    const refused = await readRefused(this.sql);
    this.refusedAccounts = refused.length;
    for (const state of refused) {
      const stream = alarmStream(state);
      const about = JSON.stringify([state.account, stream]);
      if (this.alarmed.has(about) && !again) continue;
      this.alarmed.add(about);
      const { kind } = await this.store.append({
        account: await this.alarmAccount(state),
        writes: [
          {
            stream,
            expectedVersion: 0,
            events: [
              {
                type: 'alarm.raised',
                actor: { kind: 'system', id: 'sealer' },
                data: asData({ code: 'not_sealed', facts: factsOf(state) }),
              },
            ],
          },
        ],
      });
      if (kind === 'appended') this.logger.error(factsOf(state), 'the sealer refused an event: the log was changed');
    }
  }

  /** The log of an account that is gone altogether is not begun again by the alarm that says so. */
  private async alarmAccount({ account }: TreeState): Promise<string> {
    return (await this.store.accountSize(account)) > 0n ? account : systemAccount;
  }

  private state(): PartState {
    const why = [
      ...(this.failures > 0 ? ['it cannot read or write; nothing new is sealed'] : []),
      ...(this.refusedAccounts > 0
        ? [`events of ${String(this.refusedAccounts)} accounts were refused; see alarm.raised`]
        : []),
      ...(this.folderProblem === null ? [] : [this.folderProblem]),
    ];
    return {
      state: why.length === 0 ? 'ok' : 'degraded',
      ...(why.length === 0 ? {} : { why: why.join('; ') }),
      lag: this.lag(),
      refusedAccounts: this.refusedAccounts,
      failures: this.failures,
    };
  }

  private lag(): number {
    return this.last === null ? 0 : Number(this.last.head - this.last.position);
  }

  private measure(): void {
    const gauge = (name: string, help: string, read: () => number): void => {
      new Gauge({
        name,
        help,
        registers: [this.metrics],
        collect() {
          this.set(read());
        },
      });
    };
    gauge('hookledger_sealer_lag_events', 'Events that are not in their tree yet.', () => this.lag());
    gauge(
      'hookledger_sealer_refused_accounts',
      'Accounts in which the sealer refused an event.',
      () => this.refusedAccounts,
    );
    gauge('hookledger_sealer_failures', 'Failures in a row of the sealer; 0 while it works.', () => this.failures);
  }
}

const nothing: ReadonlyMap<string, RoundAccount> = new Map();

const problemOf = (error: unknown, what: 'read' | 'written'): string =>
  error instanceof FolderProblem
    ? error.message
    : `the folder of checkpoints cannot be ${what} (${(error as { code?: string }).code ?? 'unknown'})`;

const alarmStream = ({ account, refused, reason }: TreeState): string =>
  `alarm/sealer/${digestOf(account).slice(0, 16)}/${String(refused)}/${String(reason)}`;

const factsOf = ({ account, refused, reason }: TreeState): { readonly [fact: string]: string } => ({
  account,
  position: String(refused),
  reason: String(reason),
});
