import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createPool, postgresEventStore, sqlOver, type EventStore, type Sql } from '#event-store';
import { masterKeyFrom, masterKeysOf, openRootSecret } from '#sealing';
import { freePort, startServer, testOperatorKey, until, type RunningServer } from './running-server.js';
import { verifyAt } from './tampering.js';
import { startTestCluster, type TestCluster } from './test-postgres.js';

/** Who is killed. */
export type Victim = 'server' | 'postgres' | 'worker';

/** What rounds of killing under load came to. Everything but the first group must be 0. */
export interface CrashFigures {
  readonly rounds: number;
  readonly kills: { readonly [victim in Victim]: number };
  /** Firings that were answered, and requests that were not. */
  readonly answered: number;
  readonly unanswered: number;
  /** Invocations on record as lost: kept open for who would not wait, when their server died. */
  readonly lost: number;
  readonly events: number;
  readonly seconds: number;

  /** Answered, and not on record, or not whole. */
  readonly missing: number;
  readonly partial: number;
  /** Answered otherwise than the record says. */
  readonly different: number;
  /** Keys under which a hook ran to its end more than once. */
  readonly doubled: number;
  /** Invocations that are on record as open after all is over. */
  readonly open: number;
  /** Answered, and not to be found by a search. */
  readonly unsearchable: number;
  /** What verifying the log found. */
  readonly faults: readonly string[];
}

export interface CrashOrder {
  readonly rounds: number;
  readonly clients?: number;
  /** Who is killed in which round; default: by chance. */
  readonly victims?: readonly Victim[];
  readonly onRound?: (round: number, victim: Victim, answered: number) => void;
}

const base = '/v1/accounts/default';
const masterKey = Buffer.alloc(32, 11);

/**
 * Fires hooks from several clients at a server, a worker and a Postgres of their own, kills one of them in each round,
 * starts it again, and in the end counts what was answered and is not on record.
 */
export const runCrashRounds = async (order: CrashOrder): Promise<CrashFigures> => {
  const world = await openWorld();
  try {
    return await world.run(order);
  } finally {
    await world.close();
  }
};

interface Answered {
  readonly key: string;
  readonly invocationId: string;
  readonly handlers: number;
  readonly outcome: string;
  readonly first: string;
  readonly last: string;
}

const openWorld = async (): Promise<World> => {
  const cluster = await startTestCluster({ durable: true });
  const database = await cluster.createDatabase();
  const folder = mkdtempSync(join(tmpdir(), 'hookledger-crash-'));
  return new World(cluster, database.url, folder, await freePort());
};

class World {
  private readonly answered: Answered[] = [];
  private readonly failed: string[] = [];
  private server: RunningServer | null = null;
  private worker: RunningServer | null = null;
  private firing = true;
  /** What the last firing that was not answered met, for whoever looks into it. */
  private refusal = 'none';

  constructor(
    private readonly cluster: TestCluster,
    private readonly url: string,
    private readonly folder: string,
    private readonly port: number,
  ) {}

  async run(order: CrashOrder): Promise<CrashFigures> {
    const began = performance.now();
    this.server = await this.startServer();
    this.worker = await this.startWorker();
    await this.install();
    const clients = [...Array.from({ length: order.clients ?? 8 }, () => this.client()), this.hastyClient()];
    const kills = { server: 0, postgres: 0, worker: 0 };
    for (let round = 0; round < order.rounds; round += 1) {
      const victim = order.victims?.[round] ?? anyVictim();
      await this.untilAnswered(20);
      await delay(Math.random() * 700);
      await this.kill(victim);
      kills[victim] += 1;
      order.onRound?.(round + 1, victim, this.answered.length);
    }
    await this.untilAnswered(20);
    this.firing = false;
    await Promise.all(clients);
    await this.fireFailedAgain();
    const counts = await this.count();
    return {
      rounds: order.rounds,
      kills,
      answered: this.answered.length,
      unanswered: this.failed.length,
      seconds: Math.round((performance.now() - began) / 1000),
      ...counts,
    };
  }

  async close(): Promise<void> {
    this.firing = false;
    await this.server?.close();
    await this.worker?.close();
    this.cluster.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** As whatever supervises it does: a start that fails, since the database is not back yet, is tried again. */
  private async start(name: string, env: Readonly<Record<string, string>>, port?: number): Promise<RunningServer> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.startOnce(name, env, port);
      } catch (error) {
        if (tries === 10) throw error;
        await delay(500);
      }
    }
  }

  private startOnce(name: string, env: Readonly<Record<string, string>>, port?: number): Promise<RunningServer> {
    return startServer({
      dataDir: join(this.folder, name),
      ...(port === undefined ? {} : { port }),
      env: {
        DATABASE_URL: this.url,
        HOOKLEDGER_MASTER_KEY: masterKey.toString('hex'),
        HOOKLEDGER_LOG_LEVEL: 'error',
        HOOKLEDGER_CHECKPOINT_DIR: join(this.folder, 'checkpoints'),
        ...env,
      },
    });
  }

  private startServer(): Promise<RunningServer> {
    return this.start('server', { HOOKLEDGER_ROLES: 'gateway,control' }, this.port);
  }

  private startWorker(): Promise<RunningServer> {
    return this.start('worker', { HOOKLEDGER_ROLES: 'worker' });
  }

  private async kill(victim: Victim): Promise<void> {
    if (victim === 'postgres') {
      this.cluster.kill();
      await delay(Math.random() * 500);
      this.cluster.start();
    } else if (victim === 'server') {
      await this.server?.kill();
      this.server = await this.startServer();
    } else {
      await this.worker?.kill();
      this.worker = await this.startWorker();
    }
  }

  private async install(): Promise<void> {
    const plugin = (id: string, code: string): object => ({
      id,
      name: id,
      version: '1',
      dialect: 'middleware',
      language: 'javascript',
      source: `globalThis.middleware.userMessageInbound = async (c) => { ${code} };`,
    });
    await this.post('/plugins', plugin('first', 'host.log("info", c.text); return c.text + "!";'));
    await this.post('/plugins', plugin('second', 'return undefined;'));
    // For who does not wait: long enough to be killed in.
    const slow = 'const end = Date.now() + 150; while (c.text.startsWith("hasty") && Date.now() < end);';
    await this.post('/plugins', plugin('third', slow));
  }

  private async post(path: string, body: object): Promise<void> {
    const answer = await this.server?.call('POST', `${base}${path}`, { body });
    if (answer?.status !== 201) throw new Error(`${path}: ${String(answer?.status)} ${answer?.text ?? ''}`);
  }

  private fire(text: string, key: string, wait: number): Promise<Response> {
    const body = {
      turnId: key,
      operationId: key,
      context: { sessionId: `s-${key.slice(0, 2)}`, channelId: null, text, mediaIds: [] },
    };
    return fetch(
      `http://127.0.0.1:${String(this.port)}${base}/hooks/middleware/userMessageInbound?wait=${String(wait)}`,
      {
        method: 'POST',
        headers: {
          authorization: `Bearer ${testOperatorKey}`,
          'content-type': 'application/json',
          'idempotency-key': key,
        },
        body: JSON.stringify(body),
      },
    );
  }

  private async client(): Promise<void> {
    while (this.firing) {
      const key = randomUUID();
      if (!(await this.fireOnce(key))) {
        this.failed.push(key);
        await delay(50);
      }
    }
  }

  private async fireOnce(key: string): Promise<boolean> {
    try {
      const response = await this.fire(`hello ${key} ${'and so on '.repeat(200)}`, key, 25);
      const answer = (await response.json()) as {
        invocationId: string;
        outcome: string;
        handlers: readonly unknown[];
        positions: { first: string; last: string };
      };
      if (response.status !== 200) this.refusal = `${String(response.status)} ${JSON.stringify(answer)}`;
      if (response.status !== 200) return false;
      const { invocationId, outcome, positions } = answer;
      this.answered.push({ key, invocationId, outcome, handlers: answer.handlers.length, ...positions });
      return true;
    } catch (error) {
      this.refusal = String(error instanceof Error ? (error.cause ?? error) : error);
      return false;
    }
  }

  /** Does not wait for answers, so that its chains are kept open on record; one at a time, since each takes a while. */
  private async hastyClient(): Promise<void> {
    while (this.firing) {
      await this.fireHastily().catch(() => undefined);
      await delay(200);
    }
  }

  private async fireHastily(): Promise<void> {
    const response = await this.fire('hasty', randomUUID(), 0);
    const { invocationId, running } = (await response.json()) as { invocationId?: string; running?: boolean };
    if (running === true) await this.server?.call('GET', `${base}/answers/${String(invocationId)}?wait=20`);
  }

  private async untilAnswered(more: number): Promise<void> {
    const enough = this.answered.length + more;
    await until('firings are answered again', () => this.answered.length >= enough, 300).catch((error: unknown) => {
      const said = [this.server, this.worker].map((process) => process?.logged().slice(-3_000) ?? '').join('\n--\n');
      throw new Error(`${String(error)}; the last refusal was ${this.refusal}\n${said}`);
    });
  }

  /** With the same keys: what was done is answered, what was not is done now. */
  private async fireFailedAgain(): Promise<void> {
    const left = [...this.failed];
    const one = async (): Promise<void> => {
      for (let key = left.pop(); key !== undefined; key = left.pop()) {
        const again = key;
        await until('a failed firing is answered', () => this.fireOnce(again), 180);
      }
    };
    await Promise.all(Array.from({ length: 16 }, one));
  }

  private async count(): Promise<Omit<CrashFigures, 'rounds' | 'kills' | 'answered' | 'unanswered' | 'seconds'>> {
    const pool = createPool({ connectionString: this.url, max: 4 });
    const sql = sqlOver(pool);
    const store = postgresEventStore({ connectionString: this.url });
    try {
      await until('nothing is open', async () => (await openOnes(sql)) === 0, 120).catch(() => undefined);
      await until('everything is sealed', () => isSealed(sql), 120).catch(() => undefined);
      await until('the read models have caught up', () => isCaughtUp(sql, store), 120).catch(() => undefined);
      const masters = masterKeysOf(masterKeyFrom(masterKey, 'environment'));
      const rootSecret = await openRootSecret(sql, masters);
      const outside = readFileSync(join(this.folder, 'checkpoints', 'checkpoints.jsonl'), 'utf8').split('\n');
      const lines = outside.filter((line) => line !== '');
      const { named, summary } = await verifyAt(this.url, { rootSecret, outside: lines });
      return {
        ...(await countAnswered(sql, this.answered)),
        lost: await countOf(sql, "select count(*) as n from event where type = 'invocation.lost'"),
        open: await openOnes(sql),
        events: summary.events,
        faults: named,
      };
    } finally {
      await store.close();
      await pool.end();
    }
  }
}

const anyVictim = (): Victim => (['server', 'postgres', 'worker'] as const)[Math.floor(Math.random() * 3)] ?? 'server';

const countOf = async (sql: Sql, text: string, values: readonly unknown[] = []): Promise<number> => {
  const [row] = await sql.query<{ n: string }>(text, values);
  return Number(row?.n ?? 0);
};

const openOnes = (sql: Sql): Promise<number> =>
  countOf(
    sql,
    `select count(*) as n from (
      select stream from event where stream like 'invocation/%' group by stream
        having not bool_or(type in ('invocation.closed', 'invocation.lost'))) open`,
  );

const isSealed = async (sql: Sql): Promise<boolean> =>
  (await countOf(
    sql,
    'select count(*) as n from account_head h left join tree t using (account) where t.signed is distinct from h.size',
  )) === 0;

const isCaughtUp = async (sql: Sql, store: EventStore): Promise<boolean> => {
  const head = await store.head();
  return (
    (await countOf(sql, "select count(*) as n from follower where name like 'read-model:%' and position < $1", [
      String(head),
    ])) === 0
  );
};

interface StreamRow {
  readonly types: readonly string[];
  readonly first: string;
  readonly last: string;
  readonly outcome: string;
}

/** Looks every answered firing up in the log, and in the read model. */
const countAnswered = async (
  sql: Sql,
  answered: readonly Answered[],
): Promise<Pick<CrashFigures, 'missing' | 'partial' | 'different' | 'doubled' | 'unsearchable'>> => {
  const counts = { missing: 0, partial: 0, different: 0 };
  for (const { invocationId, handlers, outcome, first, last } of answered) {
    const [row] = await sql.query<StreamRow>(
      `select array_agg(type order by version) as types, min(account_position)::text as first,
          max(account_position)::text as last,
          max(convert_from(bytes, 'UTF8')::jsonb ->> 'outcome') filter (where type = 'invocation.closed') as outcome
        from event where account = 'default' and stream = $1 having count(*) > 0`,
      [`invocation/${invocationId}`],
    );
    if (row === undefined) counts.missing += 1;
    else if (!isWhole(row.types, handlers)) counts.partial += 1;
    else if (row.first !== first || row.last !== last || row.outcome !== outcome) counts.different += 1;
  }
  const [model] = await sql.query<{ generation: number }>(
    "select generation from read_model where name = 'record' and state = 'live'",
  );
  const ids = answered.map(({ invocationId }) => invocationId);
  const found = await countOf(
    sql,
    `select count(*) as n from rm${String(model?.generation)}_invocation
      where account = 'default' and state = 'closed' and invocation_id = any ($1::text[])`,
    [ids],
  );
  const doubled = await countOf(
    sql,
    `select count(*) as n from (select operation_id from rm${String(model?.generation)}_invocation
      where state = 'closed' and operation_id = any ($1::text[]) group by operation_id having count(*) > 1) twice`,
    [answered.map(({ key }) => key)],
  );
  return { ...counts, doubled, unsearchable: new Set(ids).size - found };
};

const isWhole = (types: readonly string[], handlers: number): boolean =>
  types[0] === 'invocation.opened' &&
  types.at(-1) === 'invocation.closed' &&
  types.filter((type) => type.startsWith('handler.') && type !== 'handler.started').length === handlers;
