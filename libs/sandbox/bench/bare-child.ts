import { Socket } from 'node:net';
import { runInThisContext } from 'node:vm';
import { Incoming, Outgoing } from '../src/framing.js';
import type { Message } from '../src/framing.js';

/**
 * The same handlers without any sandbox: a plain process that gets the same message over the same framing, calls the
 * functions one after another on one object and sends the results back. What the sandbox costs is measured against it.
 */
type Handler = (context: Record<string, unknown>, tools: object) => unknown;

const handlers: Handler[] = [];
const outgoing = new Outgoing();
const socket = new Socket({ fd: 3, readable: true, writable: true });
const waiting: (() => void)[] = [];
let isAnswered = false;
const host = {
  log: (level: string, text: string): Promise<void> => {
    outgoing.push(['call', 0, 0, 0, 0, isAnswered, 'log', JSON.stringify([level, text]), null]);
    if (!isAnswered) return Promise.resolve();
    send();
    return new Promise((resolve) => waiting.push(resolve));
  },
};
Object.assign(globalThis, { host });

const send = (): void => {
  if (!outgoing.isEmpty) socket.write(outgoing.take());
};

const run = async (chain: number, input: string): Promise<void> => {
  const context = JSON.parse(input) as Record<string, unknown>;
  for (let index = 0; index < handlers.length; index++) {
    const result = await handlers[index]?.(context, {});
    const patch = typeof result === 'object' && result !== null ? result : {};
    Object.assign(context, patch);
    outgoing.push(['returned', chain, index, JSON.stringify(patch)]);
  }
  outgoing.push(['end', chain]);
  send();
};

const obey = (message: Message): void => {
  const [word, chain, text] = message as [string, number, string];
  if (word === 'answer') {
    waiting.shift()?.();
    return;
  }
  if (word === 'answered') {
    isAnswered = true;
    return;
  }
  if (word === 'define') {
    const on = (runInThisContext(`((on) => { ${text}\nreturn on; })`) as (on: object) => { it?: Handler })({});
    if (on.it !== undefined) handlers.push(on.it);
    return;
  }
  void run(chain, text);
};

const incoming = new Incoming(obey);
socket.on('data', (chunk: Buffer) => incoming.push(chunk));
socket.on('close', () => process.exit(0));
