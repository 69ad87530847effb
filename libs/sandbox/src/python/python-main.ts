import { readFileSync, writeFileSync } from 'node:fs';
import { Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Incoming, Outgoing } from '../framing.js';
import type { Message } from '../framing.js';
import { markerWriter, monotonicMs } from '../marker.js';
import { PipeWriter } from '../pipe-writer.js';
import type { ToChild, ToParent } from '../wire.js';
import { buildBorder } from './harden.js';
import { KIT } from './kit.js';
import { PythonWalker } from './python-walker.js';
import type { Entry } from './python-walker.js';

/**
 * The program of a child that runs Python. Arguments: the memory snapshot and the settings as JSON; or `make` and where
 * to write a snapshot. fd 3 is the pipe to the API process, fd 4 the marker file. It holds no secrets, knows no path and
 * no network, and ends with the pipe.
 */
const PIPE = 3;
const MARKER = 4;
/** Memory while a snapshot is made. */
const MAKE_MIB = 256;

interface Settings {
  readonly isolateMiB: number;
  /** Become this user once everything is loaded, where the start line could not. */
  readonly user: number | null;
}

/** What is used of Pyodide. */
interface Pyodide {
  readonly globals: { get(name: string): Entry };
  runPython(code: string): unknown;
  makeMemorySnapshot(): Uint8Array;
}

const [, , first = '', second = '{}'] = process.argv;
const folder = dirname(fileURLToPath(import.meta.url));

const start = async (options: Record<string, unknown>): Promise<Pyodide> => {
  const { loadPyodide } = (await import(pathToFileURL(join(folder, 'pyodide.mjs')).href)) as {
    readonly loadPyodide: (options: Record<string, unknown>) => Promise<Pyodide>;
  };
  return loadPyodide({
    jsglobals: {},
    indexURL: `${folder}/`,
    env: { HOME: '/home/pyodide', PYTHONHASHSEED: '0' },
    stdin: () => null,
    stdout: () => undefined,
    stderr: () => undefined,
    ...options,
  });
};

const serve = async (): Promise<void> => {
  const settings = JSON.parse(second) as Settings;
  const border = buildBorder(settings.isolateMiB);
  const python = await start({ _loadSnapshot: readFileSync(first) });
  const entry = python.globals.get('entry');
  border.lock();
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
  const walker = new PythonWalker(entry, markerWriter(MARKER), {
    say: (message: ToParent) => outgoing.push(message),
    flush,
  });
  let flushedAt = 0;
  const incoming = new Incoming((message) => {
    obey(walker, message);
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
  // An interpreter that ended (os._exit, a fatal error) takes its process with it.
  process.on('uncaughtException', die);
  process.on('unhandledRejection', die);
  outgoing.push(['ready', process.pid]);
  flush();
  socket.resume();
};

const obey = (walker: PythonWalker, received: Message): void => {
  const message = received as unknown as ToChild;
  switch (message[0]) {
    case 'run': {
      const [, chain, plan, input, args, patches, from, failed] = message;
      walker.begin(chain, plan, input, args, patches, from, failed);
      return;
    }
    case 'plan':
      walker.plan(message[1], message[3], message.slice(4) as (string | number)[]);
      return;
    case 'drop-plan':
      walker.dropPlan(message[1]);
      return;
    case 'answer':
      walker.answer(message[1], message[2], message[4], message[5], message[6], message[7]);
      return;
    case 'realm': {
      const [, id, , fileName, code, guest, setup] = message;
      walker.define(id, { fileName, code, guest, setup });
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

/**
 * A snapshot is taken of an interpreter that holds the kit and nothing else, behind the same border: where functions
 * stand in the interpreter's table depends on it.
 */
const make = async (): Promise<void> => {
  buildBorder(MAKE_MIB);
  const python = await start({ _makeSnapshot: true });
  python.runPython(KIT);
  writeFileSync(second, python.makeMemorySnapshot());
  process.exit(0);
};

await (first === 'make' ? make() : serve());
