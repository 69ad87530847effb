import { setTimeout as delay } from 'node:timers/promises';
import type { CallAnswer, RunningServer } from './running-server.js';

const base = '/v1/accounts/default';

/** An event, as far as these tests look at it. */
export interface LifecycleEvent {
  readonly type: string;
  readonly hook?: string;
  readonly sessionId?: string;
  readonly operationId?: string;
  readonly data: { readonly runId?: string; readonly jobId?: string; readonly clearId?: string };
}

/** A runtime and an auditor of the default account, and what they ask of a server. */
export interface LifecycleClients {
  post(path: string, body?: object, headers?: Readonly<Record<string, string>>): Promise<CallAnswer>;
  put(path: string, body: object): Promise<CallAnswer>;
  /** As the auditor, once the read model holds everything that was written before. */
  read(path: string): Promise<CallAnswer>;
  /** As an auditor whose key sees no content. */
  readBlind(path: string): Promise<CallAnswer>;
  /** Types of the events of the account, of these types. */
  events(...types: readonly string[]): Promise<readonly LifecycleEvent[]>;
  /** The same clients at another server over the same log. */
  at(server: RunningServer): LifecycleClients;
}

/** Makes the keys. */
export const lifecycleClients = async (server: RunningServer): Promise<LifecycleClients> => {
  const key = async (role: string, more: object = {}): Promise<string> => {
    const answer = await server.call<{ secret: string }>('POST', `${base}/keys`, {
      body: { role, name: role, ...more },
    });
    if (answer.status !== 201) throw new Error(answer.text);
    return answer.body.secret;
  };
  const keys = {
    runtime: await key('runtime'),
    auditor: await key('auditor'),
    blind: await key('auditor', { content: 'none' }),
  };
  return clientsOf(server, keys);
};

interface Keys {
  readonly runtime: string;
  readonly auditor: string;
  readonly blind: string;
}

const clientsOf = (server: RunningServer, keys: Keys): LifecycleClients => {
  const size = async (): Promise<bigint> => {
    const page = await server.call<{ items: { position: string }[] }>('GET', `${base}/events?limit=500`);
    return BigInt(page.body.items.length);
  };
  /** Asked again while the read model is behind: a busy machine is no fault. */
  const readAs = async (path: string, key: string): Promise<CallAnswer> => {
    for (let tries = 0; ; tries += 1) {
      const answer = await server.call('GET', `${base}${path}`, { key });
      const { completeUpTo } = (answer.body ?? {}) as { completeUpTo?: string | null };
      const behind =
        answer.status === 503 || (typeof completeUpTo === 'string' && BigInt(completeUpTo) + 1n < (await size()));
      if (!behind || tries >= 100) return answer;
      await delay(100);
    }
  };
  return {
    post: (path, body, headers) =>
      server.call('POST', `${base}${path}`, {
        key: keys.runtime,
        ...(body === undefined ? {} : { body }),
        ...(headers === undefined ? {} : { headers }),
      }),
    put: (path, body) => server.call('PUT', `${base}${path}`, { key: keys.runtime, body }),
    read: (path) => readAs(path, keys.auditor),
    readBlind: (path) => readAs(path, keys.blind),
    events: async (...types) => {
      const found: LifecycleEvent[] = [];
      let after = '';
      for (;;) {
        const path = `${base}/events?limit=500&type=${types.join(',')}${after === '' ? '' : `&after=${after}`}`;
        const page = await server.call<{ items: (LifecycleEvent & { position: string })[] }>('GET', path);
        found.push(...page.body.items);
        const last = page.body.items.at(-1);
        if (last === undefined || page.body.items.length < 500) return found;
        after = last.position;
      }
    },
    at: (other) => clientsOf(other, keys),
  };
};

/** Installs a middleware plugin for the default account. */
export const installPlugin = async (server: RunningServer, id: string, source: string): Promise<void> => {
  const body = { id, name: id, version: '1', dialect: 'middleware', language: 'javascript', source, reason: 'test' };
  const answer = await server.call('POST', `${base}/plugins`, { body });
  if (answer.status !== 201) throw new Error(answer.text);
};
