import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import 'reflect-metadata';
import { CommandBus, CommandHandler } from '@nestjs/cqrs';
import { Module } from '@nestjs/common';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Registry } from 'prom-client';
import type { EventStore } from '#event-store';
import { memoryEventStore } from '#event-store';
import type { DoneCommand } from './account-command.js';
import { AccountCommand, AccountCommandHandler } from './account-command.js';
import type { Caller, Role } from './caller.js';
import { PlatformCqrsModule } from './platform-cqrs.module.js';
import { createLogger } from './logger.js';
import { Problem } from './problem.js';
import { EVENT_STORE, LOGGER, METRICS } from './tokens.js';

class Note extends AccountCommand<string> {
  override readonly allows: readonly Role[] = ['admin'];
  constructor(
    account: string,
    caller: Pick<Caller, 'role' | 'account'>,
    key: string | null,
    readonly work: (command: Note) => Promise<string>,
    digest = 'the request',
  ) {
    const whole = { keyId: 'k', content: 'none', onBehalfOf: null, ...caller } as const;
    super({ account, caller: whole, idempotency: key === null ? null : { key, requestDigest: digest } });
  }
}

@CommandHandler(Note)
class NoteHandler extends AccountCommandHandler<Note, string> {
  protected override run(command: Note): Promise<string> {
    return command.work(command);
  }

  protected override replay(_: Note, done: DoneCommand): Promise<string> {
    return Promise.resolve(`again ${done.result.stream} at ${done.first}`);
  }
}

@Module({})
class Root {}

const admin = { role: 'admin', account: 'acme' } as const;

let store: EventStore;
let metrics: Registry;
let app: INestApplicationContext;
let bus: CommandBus;

beforeEach(async () => {
  store = memoryEventStore();
  metrics = new Registry();
  const shared = [
    { provide: EVENT_STORE, useValue: store },
    { provide: LOGGER, useValue: createLogger('silent') },
    { provide: METRICS, useValue: metrics },
  ];
  const root = { module: Root, imports: [PlatformCqrsModule.withPlatformBus(shared)], providers: [NoteHandler] };
  app = await NestFactory.createApplicationContext(root, { logger: false, abortOnError: false });
  bus = app.get(CommandBus);
});

afterEach(async () => {
  await app.close();
  await store.close();
});

/** Records one event under the command's claim. */
const record = async (command: Note): Promise<string> => {
  const { claim, meta } = command;
  const result = await store.append({
    account: meta.account,
    writes: [{ stream: 'notes', expectedVersion: 'any', events: [{ type: 'account.resumed', data: {} }] }],
    commands: claim === null ? [] : [{ key: claim.key, token: claim.token, result: { stream: 'notes', status: 201 } }],
  });
  return result.kind;
};

describe('the command bus', () => {
  it('runs a command for a role that may, and for operators always', async () => {
    expect(await bus.execute(new Note('acme', admin, null, record))).toBe('appended');
    expect(await bus.execute(new Note('acme', { role: 'operator', account: null }, null, record))).toBe('appended');
  });

  it('refuses a role that may not, and another account as if it were not there, before anything runs', async () => {
    const never = (): Promise<string> => Promise.reject(new Error('it ran'));
    const forbidden = bus.execute(new Note('acme', { role: 'auditor', account: 'acme' }, 'k', never));
    await expect(forbidden).rejects.toMatchObject({ status: 403 });
    await expect(bus.execute(new Note('other', admin, 'k', never))).rejects.toMatchObject({ status: 404 });
    expect(
      await store.claim({ account: 'acme', key: 'k', requestDigest: 'd', invocationId: null, leaseMs: 1 }),
    ).toMatchObject({ kind: 'claimed', attempt: 1 });
  });

  it('runs once for many at once, and answers the others from the events', async () => {
    let runs = 0;
    const once = (command: Note): Promise<string> => {
      runs += 1;
      return record(command);
    };
    const commands = Array.from({ length: 20 }, () => new Note('acme', admin, 'same', once));
    const answers = await Promise.all(commands.map((command) => bus.execute(command)));
    expect(runs).toBe(1);
    expect(answers.filter((answer) => answer === 'appended')).toHaveLength(1);
    expect(answers.filter((answer) => answer === 'again notes at 0')).toHaveLength(19);
    expect(commands.filter(({ done }) => done !== null)).toHaveLength(19);
  });

  it('refuses a key that was used for another request', async () => {
    await bus.execute(new Note('acme', admin, 'same', record));
    const other = bus.execute(new Note('acme', admin, 'same', record, 'another request'));
    await expect(other).rejects.toMatchObject({ status: 422, code: 'idempotency_key_reused' });
  });

  it.each([
    ['a refusal', new Problem(409, 'no', 'No.')],
    ['a log that is away', new Problem(503, 'later', 'Later.')],
    ['an error', new Error('broken')],
  ])('lets go of the key after %s, when nothing was written', async (_, failure) => {
    const failing = (): Promise<string> => Promise.reject(failure);
    await expect(bus.execute(new Note('acme', admin, 'k', failing))).rejects.toBe(failure);
    expect(await bus.execute(new Note('acme', admin, 'k', record, 'a corrected request'))).toBe('appended');
  });

  it('keeps the answer of what was written, even when the handler failed after it', async () => {
    const late = async (command: Note): Promise<string> => {
      await record(command);
      throw new Error('after the commit');
    };
    await expect(bus.execute(new Note('acme', admin, 'k', late))).rejects.toThrow('after the commit');
    expect(await bus.execute(new Note('acme', admin, 'k', record))).toBe('again notes at 0');
    expect(await store.accountSize('acme')).toBe(1n);
  });

  it('measures commands by name and outcome', async () => {
    await bus.execute(new Note('acme', admin, null, record));
    await bus.execute(new Note('other', admin, null, record)).catch(() => undefined);
    const text = await metrics.metrics();
    expect(text).toContain('hookledger_command_duration_seconds_count{command="Note",outcome="ok"} 1');
    expect(text).toContain('hookledger_command_duration_seconds_count{command="Note",outcome="refused"} 1');
  });
});
