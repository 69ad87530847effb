import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { Socket } from 'node:net';
import { setPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Incoming, Outgoing } from './framing.js';
import type { Message } from './framing.js';
import { isFromChild } from './from-child.js';
import { monotonicMs, readMarker } from './marker.js';
import type { Marker } from './marker.js';
import { PipeWriter, fdOf } from './pipe-writer.js';
import type { ToChild, ToParent } from './wire.js';

/** Looking at a busy child, ms. */
const LOOK_MS = 50;
/** In one entry for so long, a child gives way to the others. */
const BUSY_MS = 100;
const NICE = 10;
/** A child says that it is ready within this, ms. */
const READY_MS = 15_000;

export interface ChildSettings {
  /** The whole command of a child's start line. */
  readonly command: readonly string[];
  /** A child whose resident memory grows past this is killed. */
  readonly maxBytes: number;
  readonly mayRenice: boolean;
}

/** How a child ended, and where it was. */
export interface Ending {
  readonly reason: 'deadline' | 'memory' | 'gone' | 'asked';
  readonly marker: Marker;
}

export interface ChildEvents {
  readonly onMessage: (message: ToParent) => void;
  readonly onEnd: (ending: Ending) => void;
}

/** One timer for all children that are at work. */
const watched = new Set<SandboxChild>();
let eye: NodeJS.Timeout | undefined;

const lookAtAll = (): void => {
  for (const child of watched) child.look();
  if (watched.size > 0) return;
  clearInterval(eye);
  eye = undefined;
};

/** One sandbox process seen from outside: its pipe, and the eye on it while it is busy. */
export class SandboxChild {
  readonly ready: Promise<void>;
  /** Resolves when the process is gone. */
  readonly ended: Promise<void>;
  readonly #process: ChildProcess;
  readonly #pipe: Socket;
  readonly #writer: PipeWriter;
  readonly #outgoing = new Outgoing();
  readonly #settings: ChildSettings;
  readonly #markerFd: number;
  #events: ChildEvents | null = null;
  #pid = 0;
  #reason: Ending['reason'] | null = null;
  #ended = false;
  #hasExited = false;
  #isReady = false;
  #flushes = false;
  #isNiced = false;
  #stderr = '';
  #settleEnded: () => void = () => undefined;
  #settleReady: { readonly resolve: () => void; readonly reject: (error: Error) => void } | null = null;

  constructor(settings: ChildSettings) {
    this.#settings = settings;
    this.#markerFd = openNameless();
    const [command = '', ...rest] = settings.command;
    this.#process = spawn(command, rest, {
      env: {},
      cwd: '/',
      stdio: ['ignore', 'ignore', 'pipe', 'pipe', this.#markerFd],
      windowsHide: true,
    });
    // Where no process could be made for want of file descriptors there is no stdio either; `error` follows.
    const { stdio } = this.#process as { readonly stdio?: ChildProcess['stdio'] };
    this.#pipe = (stdio?.[3] as Socket | undefined) ?? new Socket();
    this.#writer = new PipeWriter(this.#pipe, fdOf(this.#pipe));
    this.ready = new Promise((resolve, reject) => {
      this.#settleReady = { resolve, reject };
    });
    this.ended = new Promise((resolve) => {
      this.#settleEnded = resolve;
    });
    this.ready.catch(() => undefined);
    const late = setTimeout(() => this.kill('gone'), READY_MS);
    void this.ready.then(
      () => clearTimeout(late),
      () => clearTimeout(late),
    );
    this.#listen();
  }

  get pid(): number {
    return this.#pid;
  }

  get wasReady(): boolean {
    return this.#isReady;
  }

  get hasEnded(): boolean {
    return this.#ended;
  }

  /** Whoever uses the child from now on. */
  attach(events: ChildEvents): void {
    this.#events = events;
  }

  /** Written at the end of this turn of the loop, with everything else said in it: a write wakes the child. */
  say(message: ToChild): void {
    if (this.#ended) return;
    this.#outgoing.push(message);
    if (this.#flushes) return;
    this.#flushes = true;
    setImmediate(() => {
      this.#flushes = false;
      if (this.#ended || this.#outgoing.isEmpty) return;
      if (!this.#writer.write(this.#outgoing.take())) this.kill('gone');
    });
  }

  /** Watches the child while it has something to do. */
  watch(): void {
    if (!this.#ended) watched.add(this);
    eye ??= setInterval(lookAtAll, LOOK_MS).unref();
  }

  unwatch(): void {
    watched.delete(this);
    if (this.#isNiced) this.#nice(false);
  }

  /** Kills it when it is over its time or memory; lets others go first when it is busy. */
  look(): void {
    if (this.#ended) return;
    const marker = readMarker(this.#markerFd);
    const now = monotonicMs();
    const isInside = marker.at !== 'outside';
    if (isInside && now > marker.killAt) {
      this.kill('deadline');
      return;
    }
    if (residentBytes(this.#pid) > this.#settings.maxBytes) {
      this.kill('memory');
      return;
    }
    this.#nice(isInside && now - marker.since > BUSY_MS);
  }

  kill(reason: Ending['reason']): void {
    if (this.#ended) return;
    this.#reason ??= reason;
    if (this.#pid !== 0 && !this.#hasExited) killPid(this.#pid);
    this.#process.kill('SIGKILL');
  }

  #listen(): void {
    const incoming = new Incoming((message) => this.#hear(message));
    this.#pipe.on('data', (chunk: Buffer) => {
      try {
        incoming.push(chunk);
      } catch {
        // It broke the framing: whatever is in there is not our program any more.
        this.kill('gone');
      }
    });
    this.#pipe.on('error', () => this.kill('gone'));
    this.#process.stderr?.on('data', (chunk: Buffer) => {
      if (this.#stderr.length < 4096) this.#stderr += chunk.toString('latin1');
    });
    this.#process.stderr?.on('error', () => undefined);
    // From now on its number may be another's.
    this.#process.on('exit', () => {
      this.#hasExited = true;
    });
    this.#process.on('error', (error) => this.#end(error.message));
    // `close` comes when the pipe has been read to its end, so nothing that the child said is lost.
    this.#process.on('close', () => this.#end(this.#stderr));
  }

  #hear(message: Message): void {
    if (this.#reason !== null) return;
    const isReady = message[0] === 'ready';
    if (!isFromChild(message) || isReady === this.#isReady) {
      this.kill('gone');
      return;
    }
    if (message[0] !== 'ready') {
      this.#events?.onMessage(message);
      return;
    }
    this.#isReady = true;
    this.#pid = innermost(this.#process.pid ?? 0) || message[1];
    this.#settleReady?.resolve();
    this.#settleReady = null;
  }

  #end(said: string): void {
    if (this.#ended) return;
    this.#ended = true;
    this.unwatch();
    const marker = readMarker(this.#markerFd);
    closeSync(this.#markerFd);
    this.#settleReady?.reject(new Error(said.trim().slice(0, 500) || 'The sandbox process ended before it was ready.'));
    this.#settleReady = null;
    this.#settleEnded();
    const outOfMemory = /out of memory|Allocation failed|heap limit/i.test(said);
    this.#events?.onEnd({ reason: this.#reason ?? (outOfMemory ? 'memory' : 'gone'), marker });
  }

  #nice(yes: boolean): void {
    if (yes === this.#isNiced || !this.#settings.mayRenice || this.#pid === 0 || this.#hasExited) return;
    this.#isNiced = yes;
    try {
      setPriority(this.#pid, yes ? NICE : 0);
    } catch {
      // It ended meanwhile.
    }
  }
}

const killPid = (pid: number): void => {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended meanwhile.
  }
};

/**
 * The process at the end of a start line: each part of it has one child or became the next one. The child itself cannot
 * tell the number that it is known by outside its namespace.
 */
const innermost = (pid: number): number => {
  try {
    const [child] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').split(' ').filter(Boolean);
    return child === undefined ? pid : innermost(Number(child));
  } catch {
    return 0;
  }
};

const PAGE_BYTES = 4096;

const residentBytes = (pid: number): number => {
  if (process.platform !== 'linux' || pid === 0) return 0;
  try {
    const [, pages = '0'] = readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ');
    return Number(pages) * PAGE_BYTES;
  } catch {
    return 0;
  }
};

/** A file without a name, shared with the child. Where an open file keeps its name, it stays behind. */
const openNameless = (): number => {
  const folder = mkdtempSync(join(tmpdir(), 'hookledger-'));
  const fd = openSync(join(folder, 'marker'), 'w+');
  try {
    rmSync(folder, { recursive: true, force: true });
  } catch {
    // Windows: a few bytes in the folder for temporary files.
  }
  return fd;
};
