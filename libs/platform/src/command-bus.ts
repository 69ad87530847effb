import { Inject, Injectable } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import type { ICommand } from '@nestjs/cqrs';
import { CommandBus } from '@nestjs/cqrs';
import { Histogram } from 'prom-client';
import type { Registry } from 'prom-client';
import type { Claim, EventStore } from '#event-store';
import { AccountCommand } from './account-command.js';
import { forbidden, noAccount, roleMay } from './auth.js';
import type { Logger } from './logger.js';
import { errorFacts } from './logger.js';
import { headerPointer, Problem } from './problem.js';
import { EVENT_STORE, LOGGER, METRICS } from './tokens.js';

/** How long a claim holds without a sign of life; a replica that died lets go of its keys after this. */
const leaseMs = 30_000;

/**
 * Nest's bus with what every command of an account needs around its handler, once: who may, idempotency, duration.
 * Nest's own has no pipeline, so this is a subclass that stands in its place.
 */
@Injectable()
export class PlatformCommandBus extends CommandBus {
  private readonly durations: Histogram<'command' | 'outcome'>;

  constructor(
    @Inject(ModuleRef) moduleRef: ModuleRef,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(LOGGER) private readonly log: Logger,
    @Inject(METRICS) metrics: Registry,
  ) {
    super(moduleRef);
    this.durations = new Histogram({
      name: 'hookledger_command_duration_seconds',
      help: 'Time a command took, its idempotency claim included.',
      labelNames: ['command', 'outcome'],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers: [metrics],
    });
  }

  override async execute<R>(command: ICommand): Promise<R> {
    if (!(command instanceof AccountCommand)) return super.execute<ICommand, R>(command);
    const started = process.hrtime.bigint();
    const name = command.constructor.name;
    try {
      const answer = await this.run<R>(command as AccountCommand<R>);
      this.observe(name, 'ok', started);
      return answer;
    } catch (error) {
      this.observe(name, error instanceof Problem && error.status < 500 ? 'refused' : 'failed', started);
      throw error;
    }
  }

  private run<R>(command: AccountCommand<R>): Promise<R> {
    const { caller, account, idempotency } = command.meta;
    if (caller.role !== 'operator' && caller.account !== account) throw noAccount();
    if (!roleMay(caller.role, command.allows)) throw forbidden(caller.role, command.allows);
    return idempotency === null ? this.handle(command) : this.once(command, idempotency);
  }

  /** The key is claimed before anything runs; whoever else sends it waits in `claim` (api.md, idempotency). */
  private async once<R>(
    command: AccountCommand<R>,
    { key, requestDigest }: NonNullable<AccountCommand<R>['meta']['idempotency']>,
  ): Promise<R> {
    const { account } = command.meta;
    const { invocationId } = command;
    const claim = await this.store.claim({ account, key, requestDigest, invocationId, leaseMs });
    if (claim.kind === 'mismatch') throw keyReused();
    if (claim.kind === 'done') {
      command.done = { result: claim.result, first: claim.first, last: claim.last };
      return this.handle(command);
    }
    return this.underClaim(command, key, claim);
  }

  private async underClaim<R>(
    command: AccountCommand<R>,
    key: string,
    claim: Extract<Claim, { kind: 'claimed' }>,
  ): Promise<R> {
    const { account } = command.meta;
    const { token, attempt, previousInvocationId } = claim;
    command.claim = { key, token, attempt, previousInvocationId };
    const renewal = setInterval(() => {
      // A lease that was lost shows when the append is refused; a log that is away shows there too.
      this.store.renewClaim(account, key, token, leaseMs).catch(() => undefined);
    }, leaseMs / 3);
    try {
      return await this.handle(command);
    } catch (error) {
      // Releasing a claim whose append was committed changes nothing, so a failure after it keeps its answer.
      await this.store.releaseClaim(account, key, token).catch((failure: unknown) => {
        this.log.warn(errorFacts(failure), 'an idempotency key stays claimed until its lease ends');
      });
      throw error;
    } finally {
      clearInterval(renewal);
    }
  }

  private handle<R>(command: AccountCommand<R>): Promise<R> {
    return super.execute<AccountCommand<R>, R>(command);
  }

  private observe(command: string, outcome: string, started: bigint): void {
    this.durations.observe({ command, outcome }, Number(process.hrtime.bigint() - started) / 1e9);
  }
}

const keyReused = (): Problem =>
  new Problem(422, 'idempotency_key_reused', 'This Idempotency-Key was used for another request.', [
    { pointer: headerPointer('Idempotency-Key'), reason: 'use a new key for a new request' },
  ]);
