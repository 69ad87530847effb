import { describe, expect, it } from '@jest/globals';
import { createClient, HookledgerProblem, memoryOutbox, MissingEvents, StillRunning, Unreachable } from './index.js';

/** Against a server that is a function. */

interface Seen {
  readonly method: string;
  readonly path: string;
  readonly key: string | null;
  readonly headers: Headers;
  readonly body: string | undefined;
}

type Serve = (request: Seen, count: number) => Response | Promise<Response>;

const json = (body: unknown, status = 200, headers: { readonly [name: string]: string } = {}): Response =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } });

const problem = (status: number, code: string, headers = {}): Response =>
  json({ status, code, detail: code, errors: [], requestId: 'r' }, status, headers);

const passed = { invocationId: 'i-1', outcome: 'passed', value: 'x', cancellation: null, handlers: [] };

const clientOf = (serve: Serve, more: object = {}) => {
  const seen: Seen[] = [];
  const fake = ((input: string, init: RequestInit = {}) => {
    const headers = new Headers(init.headers);
    const path = input.replace('http://server/v1/accounts/default/', '');
    const key = headers.get('idempotency-key');
    const request: Seen = { method: init.method ?? 'GET', path, key, headers, body: init.body as string | undefined };
    seen.push(request);
    return Promise.resolve().then(() => serve(request, seen.length));
  }) as typeof fetch;
  const backoff = { firstMs: 1, mostMs: 2 };
  return { seen, client: createClient({ url: 'http://server/', key: 'k', fetch: fake, backoff, ...more }) };
};

const prompt = {
  context: { sessionId: '42', agentId: '7', sessionKind: 'direct', systemPrompt: 'x' },
} as const;

describe('a call', () => {
  it('is sent again with the same key and the same bytes until it is answered', async () => {
    const answers = [
      () => Promise.reject(new TypeError('fetch failed')),
      () => problem(503, 'log_unavailable'),
      () => new Response('<html>', { status: 502 }),
      () => problem(429, 'slow_down', { 'retry-after': '0' }),
      () => problem(409, 'contended'),
      () => new Response('{"invocationId":"i-', { status: 200 }),
      () => json(passed),
    ];
    const { client, seen } = clientOf((_, count) => (answers[count - 1] ?? (() => json(passed)))());
    expect((await client.fire('middleware/systemPrompt', prompt)).value).toBe('x');
    expect(seen).toHaveLength(answers.length);
    expect(new Set(seen.map(({ key }) => key)).size).toBe(1);
    expect(new Set(seen.map(({ body }) => body)).size).toBe(1);
    expect(seen[0]?.key).toMatch(/^[\x21-\x7e]{1,200}$/u);
    await client.fire('middleware/systemPrompt', prompt);
    expect(seen.at(-1)?.key).not.toBe(seen[0]?.key);
  });

  it('is not sent again where the server refuses', async () => {
    for (const status of [400, 401, 403, 404, 409, 410, 412, 413, 422, 500]) {
      const { client, seen } = clientOf(() => problem(status, 'no'));
      const fired = client.fire('middleware/systemPrompt', prompt);
      await expect(fired).rejects.toMatchObject({ name: 'HookledgerProblem', status, code: 'no', requestId: 'r' });
      expect(seen).toHaveLength(1);
    }
  });

  it('waits for as long as Retry-After says, or not at all where that is past its deadline', async () => {
    const { client, seen } = clientOf(() => problem(503, 'log_busy', { 'retry-after': '3600' }));
    const fired = client.fire('middleware/systemPrompt', prompt);
    await expect(fired).rejects.toBeInstanceOf(Unreachable);
    expect(seen).toHaveLength(1);
  });

  it('keeps a server that is busy apart from one that is away', async () => {
    const busy = clientOf((_, count) => (count < 20 ? problem(503, 'superseded') : json(passed)), { reachMs: 0 });
    expect((await busy.client.fire('middleware/systemPrompt', prompt)).outcome).toBe('passed');
    const away = clientOf(() => problem(503, 'log_unavailable'), { reachMs: 0 });
    const error = await away.client.fire('middleware/systemPrompt', prompt).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Unreachable);
    expect((error as Unreachable).cause).toBeInstanceOf(HookledgerProblem);
    expect(away.seen).toHaveLength(1);
  });

  it('sends texts that are no Unicode as they are', async () => {
    const { client, seen } = clientOf(() => json(passed));
    await client.fire('middleware/systemPrompt', { context: { ...prompt.context, systemPrompt: '\ud800\u0000' } });
    expect(seen[0]?.body).toContain('\\ud800\\u0000');
  });

  it('refuses ids that would be taken out of a path', async () => {
    const { client, seen } = clientOf(() => json({}));
    await expect(client.cron.heartbeat('..')).rejects.toBeInstanceOf(TypeError);
    await client.cron.heartbeat('a/../b?c#d');
    expect(seen.map(({ path }) => path)).toEqual(['cron-runs/a%2F..%2Fb%3Fc%23d/heartbeat']);
  });
});

describe('a firing', () => {
  it('asks for the answer of a chain that runs on, and fires again where that was lost', async () => {
    const { client, seen } = clientOf((_, count) => {
      if (count === 1 || count === 4)
        return json({ invocationId: `i-${String(count)}`, turnId: 't', running: true }, 202);
      if (count === 2) return json({ running: true }, 202);
      if (count === 3) return problem(410, 'invocation_lost');
      return json({ ...passed, attempt: 2 });
    });
    const answer = await client.fire('middleware/systemPrompt', prompt);
    expect(!answer.decidedAlone && answer.attempt).toBe(2);
    expect(seen.map(({ method, path }) => `${method} ${path.split('?')[0] ?? ''}`)).toEqual([
      'POST hooks/middleware/systemPrompt',
      'GET answers/i-1',
      'GET answers/i-1',
      'POST hooks/middleware/systemPrompt',
      'GET answers/i-4',
    ]);
    expect(seen[3]?.key).toBe(seen[0]?.key);
  });

  it('waits for a person only where it is told to', async () => {
    const held = { ...passed, outcome: 'held', approvalId: 'a-1', gate: { blocked: true, kind: 'held' } };
    const call = { event: { toolName: 'rm', params: {} } };
    const serve: Serve = ({ method }, count) =>
      method === 'POST' || count < 4 ? json(held) : json({ ...passed, gate: { blocked: false } });
    const impatient = clientOf(serve);
    const first = await impatient.client.fire('openclaw/before_tool_call', call);
    expect([first.held, first.proceed, impatient.seen.length]).toEqual([true, false, 1]);
    const patient = clientOf(serve);
    const decided = await patient.client.fire('openclaw/before_tool_call', call, { awaitApproval: true });
    expect([decided.held, decided.proceed, patient.seen.length]).toEqual([false, true, 4]);
  });

  it('says which invocation still runs when the deadline passes', async () => {
    const { client } = clientOf(() => json({ invocationId: 'i-1', running: true }, 202));
    const fired = client.fire('middleware/systemPrompt', prompt, { deadlineMs: 30 });
    await expect(fired).rejects.toMatchObject({ name: 'StillRunning', invocationId: 'i-1' });
    expect(new StillRunning('i-1').message).toContain('i-1');
  });

  it('keeps the report before it decides, and decides nothing where that cannot be kept', async () => {
    const outbox = { ...memoryOutbox(), put: () => Promise.reject(new Error('the disk is full')) };
    const { client } = clientOf(() => Promise.reject(new TypeError('fetch failed')), { outbox, reachMs: 0 });
    const fired = client.fire('middleware/systemPrompt', prompt, { whenUnreachable: 'open' });
    await expect(fired).rejects.toThrow('the disk is full');
  });

  it('decides for each of a batch that cannot be sent', async () => {
    const outbox = memoryOutbox();
    const { client } = clientOf(() => Promise.reject(new TypeError('fetch failed')), { outbox, reachMs: 0 });
    const [first, second] = await client.batch(
      [
        { hook: 'kohaku/post_llm_call', input: { value: 'said' } },
        {
          hook: 'middleware/cronJobFiring',
          context: { cronJobId: '3', agentId: '7', kind: 'k', name: 'n', prompt: 'p' },
        },
      ],
      { whenUnreachable: 'closed' },
    );
    expect([first, second]).toMatchObject([
      { decidedAlone: true, outcome: 'passed', value: 'said' },
      { decidedAlone: true, outcome: 'cancelled', value: null, cancellation: { code: 'unreachable' } },
    ]);
    const bodies = (await outbox.list()).map(({ body }) => [body.hook, body.batchIndex]);
    expect(bodies).toEqual([
      ['post_llm_call', 0],
      ['cronJobFiring', 1],
    ]);
    await client.close();
  });
});

describe('a subscription', () => {
  const event = (position: number): string => `id: ${String(position)}\ndata: {"position":"${String(position)}"}\n\n`;
  const stream = (text: string): Response => new Response(text, { status: 200 });

  it('leaves out what it has seen, and reads again what was missing', async () => {
    const after: (string | null)[] = [];
    const seen: string[] = [];
    const streams = [event(1) + event(2) + event(2), event(4), event(2) + event(3) + event(4)];
    const { client } = clientOf(({ headers }, count) => {
      after.push(headers.get('last-event-id'));
      return stream(streams[count - 1] ?? '');
    });
    const subscription = client.follow('all', {
      from: { after: '0' },
      onEvent: ({ position }) => {
        seen.push(position);
        if (position === '4') void subscription.stop();
      },
    });
    await subscription.done;
    expect([seen, after]).toEqual([
      ['1', '2', '3', '4'],
      ['0', '2', '2'],
    ]);
  });

  it('ends where events are missing for good, and goes on over those that were purged', async () => {
    const purged = 'event: purged\nid: 3\ndata: {"purged":{"first":"2","last":"3","saidAt":"9"}}\n\n';
    const seen: string[] = [];
    const { client } = clientOf(() => stream(event(1) + purged + event(4) + event(6)));
    const subscription = client.follow('all', {
      from: { after: '0' },
      onEvent: ({ position }) => void seen.push(position),
      onPurged: ({ first, last }) => void seen.push(`${first}-${last}`),
    });
    await expect(subscription.done).rejects.toBeInstanceOf(MissingEvents);
    expect([seen, subscription.position]).toEqual([['1', '2-3', '4'], '4']);
  });

  it('moves on over what its filter leaves out, and saves where it is', async () => {
    const saved: string[] = [];
    const { client } = clientOf((_, count) => stream(count === 1 ? `${event(3)}: quiet\nid: 8\n\n` : event(11)));
    const subscription = client.follow('some', {
      types: ['key.created'],
      from: { after: '0' },
      checkpoints: {
        load: () => Promise.resolve(null),
        save: (_, position) => Promise.resolve(void saved.push(position)),
      },
      onEvent: ({ position }) => {
        if (position === '11') void subscription.stop();
      },
    });
    await subscription.done;
    expect(saved).toEqual(['0', '3', '8', '11']);
  });
});
