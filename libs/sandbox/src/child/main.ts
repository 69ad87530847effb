import { createRequire } from 'node:module';
import { Socket } from 'node:net';
import type ivm from 'isolated-vm';
import { Incoming, Outgoing } from '../framing.js';
import type { Message } from '../framing.js';
import { markerWriter, monotonicMs } from '../marker.js';
import { PipeWriter } from '../pipe-writer.js';
import type { ToChild, ToParent } from '../wire.js';
import { ChainWalker } from './chain-walker.js';

/**
 * The program of a sandbox child. Arguments: isolated-vm's binary and the settings as JSON. fd 3 is the pipe to the
 * API process, fd 4 the marker file. It holds no secrets, knows no path and no network, and ends with the pipe.
 */
const PIPE = 3;
const MARKER = 4;

interface Settings {
  readonly isolateMiB: number;
  /** Become this user once everything is loaded, where the start line could not. */
  readonly user: number | null;
}

const [, , addon = '', settingsText = '{}'] = process.argv;
const settings = JSON.parse(settingsText) as Settings;
const vm = (createRequire(import.meta.url)(addon) as { readonly ivm: typeof ivm }).ivm;

if (settings.user !== null) {
  process.setgroups?.([]);
  process.setgid?.(settings.user);
  process.setuid?.(settings.user);
}

const die = (): never => process.exit(1);

const outgoing = new Outgoing();
const flush = (): void => {
  if (!outgoing.isEmpty && !writer.write(outgoing.take())) die();
};

const walker = new ChainWalker(vm, settings.isolateMiB, markerWriter(MARKER), {
  say: (message: ToParent) => outgoing.push(message),
  flush,
});

const obey = (received: Message): void => {
  const message = received as unknown as ToChild;
  switch (message[0]) {
    case 'run': {
      const [, chain, plan, input, args, patches, from, failed, isCareful] = message;
      walker.begin(chain, plan, input, args, patches, from, failed, isCareful);
      return;
    }
    case 'plan':
      walker.plan(message[1], message[2], message[3], message.slice(4) as (string | number)[]);
      return;
    case 'drop-plan':
      walker.dropPlan(message[1]);
      return;
    case 'answer':
      walker.answer(message[1], message[2], message[3], message[4], message[5], message[6], message[7]);
      return;
    case 'realm': {
      const [, id, account, fileName, code, guest, setup, fresh, isAlone] = message;
      walker.define({ id, account, fileName, code, guest, setup, fresh }, isAlone);
      return;
    }
    case 'drop':
      walker.drop(message[1]);
      return;
    case 'stop':
      walker.stop(message[1]);
      return;
    case 'load':
      walker.load(message[1], message[2], message[3]);
  }
};

let flushedAt = 0;
const incoming = new Incoming((message) => {
  obey(message);
  // One write per tick, but what one chain said must not wait for many chains behind it in the same chunk.
  const now = monotonicMs();
  if (now - flushedAt < 1) return;
  flushedAt = now;
  flush();
});

const socket: Socket = new Socket({
  fd: PIPE,
  readable: true,
  writable: true,
  onread: {
    buffer: Buffer.allocUnsafe(64 * 1024),
    callback: (bytes, buffer) => {
      incoming.push(Buffer.from(buffer.buffer, buffer.byteOffset, bytes));
      flush();
      return true;
    },
  },
});
const writer = new PipeWriter(socket, PIPE);
socket.on('end', die);
socket.on('close', die);
socket.on('error', die);

outgoing.push(['ready', process.pid]);
flush();
socket.resume();
