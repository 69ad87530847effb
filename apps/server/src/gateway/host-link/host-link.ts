import { Inject, Injectable, type BeforeApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { setTimeout as delay } from 'node:timers/promises';
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Notices, Sql } from '#event-store';
import type { HostAnswer, HostCallRequest, HostCalls, HostCallScope } from '#firing';
import {
  CONFIG,
  derivedKey,
  errorFacts,
  INSTANCE,
  LISTEN,
  LOGGER,
  MASTER_KEY,
  METRICS,
  Readiness,
  SQL,
  type Listen,
  type Logger,
  type ServerConfig,
} from '#platform';
import type { Json } from '#record';
import { RunningInvocations } from '../running-invocations.js';
import { fit, fitting, type Wanted } from './affinity.js';
import { readAnswer, timeOf } from './answers-of-runtimes.js';
import type { RuntimeFrame } from './frames.js';
import { Presence, type FarRuntime } from './presence.js';
import { closeCodes, type RuntimeConnection, type SentCall } from './runtime-connection.js';
import { Transit, type TransitCall } from './transit.js';

/** How often leases are renewed, ms, and how often the table is looked at for what no notice said. */
const renewMs = 5_000;
const lookMs = 1_000;
const sweepMs = 30_000;

/** A runtime without a name that has just come back may be the one that left calls behind, ms. */
const comesBackWithinMs = 15_000;

/** Channel of notices: `["call" | "answer" | "cancel" | "lying" | "replaced" | "runtimes", instance, id]`. */
const channel = 'host_link';

type Word = 'call' | 'answer' | 'cancel' | 'lying' | 'replaced' | 'runtimes';

/** A call that a chain of this process waits for. */
interface Pending {
  readonly request: HostCallRequest;
  readonly frame: string;
  readonly expiresAt: number;
  /** Where it is: with a runtime of this process, in the table, or nowhere since its runtime went away. */
  at: RuntimeConnection | 'table' | 'nowhere';
  /** Whose it is once somebody has been sent it. */
  runtimeId: string | null;
  readonly settle: (answer: HostAnswer) => void;
}

/**
 * Brings host calls to connected runtimes and their answers back. A runtime of this process is reached over its
 * WebSocket; one of another replica, or one that has to come back first, through a table and notices. A call that was
 * sent goes to the same runtime again when that comes back, and to no other: what a runtime was given once is done
 * once, or nobody knows.
 */
@Injectable()
export class HostLink implements HostCalls, OnModuleInit, BeforeApplicationShutdown {
  private readonly here = new Map<string, Set<RuntimeConnection>>();
  private readonly byId = new Map<string, RuntimeConnection>();
  private readonly pending = new Map<string, Pending>();
  private elsewhere: ReadonlyMap<string, readonly FarRuntime[]> = new Map();
  private readonly presence: Presence;
  private readonly transit: Transit;
  private notices: Notices | null = null;
  private timers: readonly NodeJS.Timeout[] = [];
  private seeing: Promise<void> | null = null;
  private seeAgain = false;
  private looking = false;
  private faulty = false;
  private isStopping = false;
  private readonly resent: Counter;
  private readonly faults: Counter;

  constructor(
    @Inject(SQL) private readonly sql: Sql,
    @Inject(INSTANCE) private readonly instance: string,
    @Inject(LOGGER) private readonly logger: Logger,
    @Inject(MASTER_KEY) rootSecret: Uint8Array,
    @Inject(METRICS) metrics: Registry,
    @Inject(CONFIG) private readonly config: Pick<ServerConfig, 'drainMs'>,
    @Inject(LISTEN) private readonly listen: Listen,
    @Inject(Readiness) readiness: Readiness,
    private readonly running: RunningInvocations,
  ) {
    this.presence = new Presence(sql, instance);
    this.transit = new Transit(sql, derivedKey(rootSecret, 'hookledger/host-link/v1'), instance);
    const { byId } = this;
    new Gauge({
      name: 'hookledger_host_runtimes',
      help: 'Runtimes that are connected to this process.',
      registers: [metrics],
      collect() {
        this.set(byId.size);
      },
    });
    this.resent = new Counter({
      name: 'hookledger_host_calls_resent_total',
      help: 'Host calls that this process sent again to a runtime that had come back.',
      registers: [metrics],
    });
    this.faults = new Counter({
      name: 'hookledger_host_frames_refused_total',
      help: 'Frames of runtimes that could not be taken or that nobody wanted.',
      registers: [metrics],
    });
    readiness.register('hostLink', () => Promise.resolve(this.readiness()));
  }

  onModuleInit(): void {
    this.notices = this.listen({
      channel,
      onNotice: (text) => this.hear(text),
      // Whatever was said meanwhile is in the tables.
      onListening: () => {
        this.see();
        void this.look();
      },
    });
    this.timers = [
      setInterval(() => void this.renew(), renewMs),
      setInterval(() => void this.look(), lookMs),
      setInterval(() => void this.sweep(), sweepMs),
    ];
    for (const timer of this.timers) timer.unref();
  }

  /** No replica sends anything here any more; what runs here may go on asking until it is done. */
  async beforeApplicationShutdown(): Promise<void> {
    this.isStopping = true;
    await this.attempt(() => this.presence.withdraw([...this.byId.keys()]));
    this.tell('runtimes', '*', '');
    const deadline = performance.now() + this.config.drainMs;
    while (this.running.size > 0 && performance.now() < deadline) await delay(50);
    for (const timer of this.timers) clearInterval(timer);
    const left = [...this.byId.values()];
    for (const connection of left) connection.close(closeCodes.restart, 'the server stops');
    await this.attempt(() =>
      this.transit.release(left.flatMap((connection) => foreignCalls(connection, this.instance))),
    );
    for (const connection of left) connection.cut();
    await this.notices?.stop();
  }

  // ---------------------------------------------------------------- what chains ask for

  serves(account: string, member: string, scope: HostCallScope): boolean {
    const wanted = { member, scope, firedBy: null };
    for (const runtime of this.here.get(account) ?? [])
      if (runtime.isReady && fit(runtime, wanted) !== null) return true;
    return (this.elsewhere.get(account) ?? []).some((runtime) => fit(runtime, wanted) !== null);
  }

  call(request: HostCallRequest): Promise<HostAnswer> {
    const { callId, member, signal } = request;
    if (signal.aborted) return Promise.resolve({ kind: 'refused', code: 'closed', message: 'the run is closed' });
    const timeMs = timeOf(member, request.args);
    return new Promise((resolve) => {
      const end = (answer: HostAnswer): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', revoked);
        this.pending.delete(callId);
        resolve(answer);
      };
      const pending: Pending = {
        request,
        frame: frameOf(request, timeMs),
        expiresAt: Date.now() + timeMs,
        at: 'nowhere',
        runtimeId: null,
        settle: (answer) => end(answer.kind === 'value' ? readAnswer(member, answer) : answer),
      };
      const giveUp = (code: string, message: string): void => {
        void this.takeBack(callId, pending).then((wasSent) =>
          end({ kind: wasSent ? 'unknown' : 'refused', code, message }),
        );
      };
      const revoked = (): void => giveUp('closed', 'the run is closed');
      const timer = setTimeout(() => giveUp('timeout', `host.${member} was not answered in time`), timeMs);
      signal.addEventListener('abort', revoked);
      this.pending.set(callId, pending);
      this.dispatch(pending);
    });
  }

  /** Sends a call that nobody has been sent yet. */
  private dispatch(pending: Pending): void {
    const { request } = pending;
    const wanted: Wanted = request;
    const near = fitting(this.here.get(request.account) ?? [], wanted).filter(({ isReady }) => isReady);
    const far = fitting(this.elsewhere.get(request.account) ?? [], wanted);
    const best = near.find(({ hasRoom }) => hasRoom);
    const [first] = far;
    const isFarBetter =
      first !== undefined && (best === undefined || (fit(first, wanted) ?? 0) > (fit(best, wanted) ?? 0));
    if (isFarBetter) void this.sendFar(pending, first);
    else if (best !== undefined) this.sendNear(pending, best);
    else if (near.length > 0) pending.settle(busy(request.member));
    else pending.settle(noRuntime(request.member));
  }

  private sendNear(pending: Pending, connection: RuntimeConnection): void {
    pending.at = connection;
    pending.runtimeId = connection.runtimeId;
    connection.give(this.sentCall(pending));
  }

  private sentCall({ request, frame, expiresAt }: Pending): SentCall {
    return { callId: request.callId, member: request.member, frame, origin: this.instance, expiresAt };
  }

  private async sendFar(pending: Pending, { connectionId, runtimeId, instance }: FarRuntime): Promise<void> {
    pending.at = 'table';
    // From here on another replica may have sent it: only the table says that it has not.
    pending.runtimeId = runtimeId;
    try {
      await this.transit.put(this.transitCall(pending, runtimeId, connectionId), instance, false);
      this.tell('call', instance, pending.request.callId);
    } catch (error) {
      this.warn(error);
      pending.settle({ kind: 'unknown', code: 'database_away', message: 'the runtime could not be reached' });
    }
  }

  private transitCall(
    { request, frame, expiresAt }: Pending,
    runtimeId: string,
    connectionId: string | null,
  ): TransitCall {
    const { callId, account, member } = request;
    const leftMs = Math.max(1, expiresAt - Date.now());
    return { callId, account, runtimeId, connectionId, origin: this.instance, member, frame, leftMs };
  }

  /** Its answer is not wanted any more: whoever has it is told. Resolves with whether a runtime may have been sent it. */
  private async takeBack(callId: string, { at, runtimeId }: Pending): Promise<boolean> {
    if (at !== 'table') {
      if (at !== 'nowhere') at.cancel(callId);
      return runtimeId !== null;
    }
    try {
      if ((await this.transit.remove(callId, 'undelivered')) !== null) return false;
      const removed = await this.transit.remove(callId, 'any');
      const holder = removed?.holder ?? null;
      if (holder !== null) this.tell('cancel', holder, callId);
    } catch (error) {
      this.warn(error);
    }
    return true;
  }

  // ---------------------------------------------------------------- runtimes of this process

  /** How many connections an account has here. */
  connectionsOf(account: string): number {
    return this.here.get(account)?.size ?? 0;
  }

  connections(): Iterable<RuntimeConnection> {
    return this.byId.values();
  }

  /** A runtime is connected; without a name it is sent calls at once. */
  join(connection: RuntimeConnection, isReady: boolean): void {
    const others = this.here.get(connection.account) ?? new Set();
    this.here.set(connection.account, others.add(connection));
    this.byId.set(connection.id, connection);
    if (isReady) void this.makeReady(connection);
  }

  /** What a runtime says. */
  async take(connection: RuntimeConnection, frame: RuntimeFrame): Promise<void> {
    if (frame.type === 'hello') {
      if (connection.isNamed && connection.runtimeId !== frame.runtimeId) {
        this.noteUseless(connection);
        connection.say({ type: 'fault', code: 'bad_frame', detail: 'a runtime keeps its runtimeId' });
        return;
      }
      connection.runtimeId = frame.runtimeId;
      connection.serves = frame.serves;
      connection.isNamed = true;
      await this.makeReady(connection);
      connection.say({ type: 'welcome', protocol: 1, runtimeId: frame.runtimeId });
      return;
    }
    const { callId } = frame;
    const call = connection.calls.get(callId);
    if (call === undefined) {
      this.noteUseless(connection);
      return;
    }
    connection.calls.delete(callId);
    const answer: HostAnswer =
      frame.type === 'result'
        ? { kind: 'value', json: JSON.stringify(frame.value) }
        : { kind: 'error', message: frame.message, ...(frame.code === null ? {} : { code: frame.code }) };
    await this.bringBack(call, answer);
  }

  /** A frame that could not be taken: the call that it was to answer fails rather than waits. */
  async refuse(connection: RuntimeConnection, callId: string | null, detail: string): Promise<void> {
    this.noteUseless(connection);
    const call = callId === null ? undefined : connection.calls.get(callId);
    if (call === undefined || callId === null) return;
    connection.calls.delete(callId);
    await this.bringBack(call, { kind: 'error', code: 'bad_result', message: detail });
  }

  private noteUseless(connection: RuntimeConnection): void {
    this.faults.inc();
    connection.useless += 1;
  }

  private async bringBack(call: SentCall, answer: HostAnswer): Promise<void> {
    if (call.origin === this.instance) {
      this.pending.get(call.callId)?.settle(answer);
      return;
    }
    await this.attempt(async () => {
      if (await this.transit.answer(call.callId, answer)) this.tell('answer', call.origin, call.callId);
    });
  }

  /** It may be sent calls from now on, and first those that it has not answered before it went away. */
  private async makeReady(connection: RuntimeConnection): Promise<void> {
    const older = connection.isNamed ? this.olderOf(connection) : [];
    connection.isReady = true;
    for (const old of older) {
      // Both are here: the calls change over without the table.
      for (const call of old.calls.values()) this.giveAgain(connection, call);
      old.calls.clear();
      old.close(closeCodes.replaced, 'the runtime has connected again');
    }
    this.giveWhatIsNowhere(connection);
    await this.attempt(async () => {
      await this.announce(connection);
      await this.giveWhatLies(connection, connection.isNamed ? 'all' : 'lying');
    });
  }

  private olderOf({ id, account, runtimeId }: RuntimeConnection): readonly RuntimeConnection[] {
    return [...(this.here.get(account) ?? [])].filter(
      (other) => other.id !== id && other.isNamed && other.runtimeId === runtimeId,
    );
  }

  /** A connection that is gone meanwhile is not said to be there. */
  private async announce(connection: RuntimeConnection): Promise<void> {
    if (this.isStopping || !this.byId.has(connection.id)) return;
    const replaced = await this.presence.announce(connection);
    connection.isAnnounced = true;
    for (const { instance, connectionId } of replaced) this.tell('replaced', instance, connectionId);
    if (!this.byId.has(connection.id)) await this.presence.withdraw([connection.id]);
    this.tell('runtimes', '*', '');
  }

  private giveAgain(connection: RuntimeConnection, call: SentCall): void {
    const isHere = this.byId.has(connection.id);
    if (call.origin !== this.instance) {
      if (isHere) connection.give(call);
      else void this.attempt(() => this.transit.release([call.callId]));
    } else {
      const pending = this.pending.get(call.callId);
      if (pending === undefined) return;
      // One that is gone again meanwhile leaves it where the next look finds it.
      pending.at = isHere ? connection : 'nowhere';
      if (isHere) connection.give(call);
    }
    if (isHere) this.resent.inc();
  }

  /** Calls of this process whose runtime went away and that the table does not hold yet. */
  private giveWhatIsNowhere(connection: RuntimeConnection): void {
    for (const pending of this.pending.values()) {
      const { request, at, runtimeId } = pending;
      if (at !== 'nowhere' || runtimeId !== connection.runtimeId || request.account !== connection.account) continue;
      this.giveAgain(connection, this.sentCall(pending));
    }
  }

  private async giveWhatLies(connection: RuntimeConnection, which: 'all' | 'lying'): Promise<void> {
    const calls = await this.transit.takeOver(connection.account, connection.runtimeId, which);
    for (const call of calls) {
      if (connection.calls.has(call.callId)) continue;
      if (call.origin === this.instance) await this.transit.remove(call.callId, 'any');
      this.giveAgain(connection, sentOf(call));
    }
  }

  /** A connection has ended: its calls wait for the runtime to come back. */
  async leave(connection: RuntimeConnection): Promise<void> {
    this.byId.delete(connection.id);
    const others = this.here.get(connection.account);
    others?.delete(connection);
    if (others?.size === 0) this.here.delete(connection.account);
    const calls = [...connection.calls.values()];
    connection.calls.clear();
    const own: Pending[] = [];
    for (const { callId } of calls) {
      const pending = this.pending.get(callId);
      if (pending?.at !== connection) continue;
      pending.at = 'nowhere';
      pending.runtimeId = connection.runtimeId;
      own.push(pending);
    }
    if (this.isStopping) return;
    await this.attempt(async () => {
      await this.presence.withdraw([connection.id]);
      this.tell('runtimes', '*', '');
      const foreign = calls.filter(({ origin }) => origin !== this.instance);
      await this.transit.release(foreign.map(({ callId }) => callId));
      for (const pending of own) await this.layDown(pending);
      for (const call of foreign) await this.callBack(connection.account, connection.runtimeId, call.callId);
    });
  }

  /** Puts a call of this process where the runtime finds it, on whichever replica it comes back. */
  private async layDown(pending: Pending): Promise<void> {
    const { request, runtimeId } = pending;
    if (pending.at !== 'nowhere' || runtimeId === null || !this.pending.has(request.callId)) return;
    pending.at = 'table';
    try {
      await this.transit.put(this.transitCall(pending, runtimeId, null), null, true);
    } catch (error) {
      pending.at = 'nowhere';
      throw error;
    }
    if (this.pending.has(request.callId)) await this.callBack(request.account, runtimeId, request.callId);
    else await this.transit.remove(request.callId, 'any');
  }

  /** The runtime may be back already, here or elsewhere: whoever has it looks for what lies there. */
  private async callBack(account: string, runtimeId: string, callId: string): Promise<void> {
    if (runtimeId.startsWith('key:')) return;
    const near = [...(this.here.get(account) ?? [])].find((other) => other.isNamed && other.runtimeId === runtimeId);
    if (near !== undefined) return this.giveWhatLies(near, 'lying');
    const instance = await this.presence.where(account, runtimeId);
    if (instance !== null && instance !== this.instance) this.tell('lying', instance, callId, [account, runtimeId]);
  }

  // ---------------------------------------------------------------- other replicas

  private tell(word: Word, instance: string, id: string, more: readonly Json[] = []): void {
    const text = JSON.stringify([word, instance, id, ...more]);
    void this.attempt(async () => {
      await this.sql.query('select pg_notify($1, $2)', [channel, text]);
    });
  }

  private hear(text: string): void {
    void this.attempt(async () => {
      const [word, instance, id, account, runtimeId] = JSON.parse(text) as readonly [
        Word,
        string,
        string,
        string,
        string,
      ];
      if (instance !== '*' && instance !== this.instance) return;
      switch (word) {
        case 'call':
          return this.deliver(id);
        case 'answer':
          return this.collect(id);
        case 'cancel':
          for (const connection of this.byId.values()) connection.cancel(id);
          return;
        case 'lying': {
          const near = [...(this.here.get(account) ?? [])].find((one) => one.isNamed && one.runtimeId === runtimeId);
          if (near !== undefined) await this.giveWhatLies(near, 'lying');
          return;
        }
        case 'replaced':
          this.byId.get(id)?.close(closeCodes.replaced, 'the runtime has connected again');
          return;
        case 'runtimes':
          this.see();
      }
    });
  }

  /** Sends a call of another replica. */
  private async deliver(callId: string): Promise<void> {
    const call = await this.transit.take(callId);
    if (call === null) return;
    const connection = this.connectionFor(call);
    if (connection === undefined) {
      const sent = { ...sentOf(call) };
      await this.bringBack(sent, noRuntime(call.member));
      return;
    }
    if (connection.hasRoom) connection.give(sentOf(call));
    else await this.bringBack(sentOf(call), busy(call.member));
  }

  private connectionFor({ connectionId, account, runtimeId }: TransitCall): RuntimeConnection | undefined {
    const named = connectionId === null ? undefined : this.byId.get(connectionId);
    return named ?? [...(this.here.get(account) ?? [])].find((one) => one.isNamed && one.runtimeId === runtimeId);
  }

  private async collect(callId: string): Promise<void> {
    const answer = await this.transit.takeAnswer(callId);
    if (answer !== null) this.pending.get(callId)?.settle(answer);
  }

  /** Sees anew which runtimes are elsewhere; one look at a time. */
  private see(): void {
    if (this.seeing !== null) {
      this.seeAgain = true;
      return;
    }
    this.seeing = this.attempt(async () => {
      const found = await this.presence.elsewhere();
      const byAccount = new Map<string, FarRuntime[]>();
      for (const runtime of found) byAccount.set(runtime.account, [...(byAccount.get(runtime.account) ?? []), runtime]);
      this.elsewhere = byAccount;
    }).finally(() => {
      this.seeing = null;
      if (!this.seeAgain) return;
      this.seeAgain = false;
      this.see();
    });
  }

  // ---------------------------------------------------------------- the clock

  private async renew(): Promise<void> {
    this.see();
    if (this.byId.size === 0 || this.isStopping) return;
    await this.attempt(async () => {
      const there = await this.presence.renew();
      for (const connection of this.byId.values()) {
        if (!connection.isReady || there.has(connection.id)) continue;
        const elsewhere = connection.isNamed
          ? await this.presence.where(connection.account, connection.runtimeId)
          : null;
        if (connection.isAnnounced && elsewhere !== null && elsewhere !== this.instance)
          connection.close(closeCodes.replaced, 'the runtime has connected again');
        else await this.announce(connection);
      }
    });
  }

  /** What notices may have missed. */
  private async look(): Promise<void> {
    if (this.looking) return;
    this.looking = true;
    await this.attempt(async () => {
      for (const pending of this.pending.values()) await this.layDown(pending);
      if ([...this.pending.values()].some(({ at }) => at === 'table')) await this.lookAfterOwn();
      if (this.byId.size === 0) return;
      for (const callId of await this.transit.waitingHere()) await this.deliver(callId);
      for (const connection of this.byId.values()) await this.lookAfter(connection);
    });
    this.looking = false;
  }

  private async lookAfterOwn(): Promise<void> {
    const living = new Set([...this.elsewhere.values()].flat().map(({ instance }) => instance));
    for (const { callId, holder, delivered, answered } of await this.transit.states()) {
      const pending = this.pending.get(callId);
      if (answered) await this.collect(callId);
      else if (!delivered && pending !== undefined && holder !== null && !living.has(holder)) {
        // Its replica is gone and sent it to nobody.
        if ((await this.transit.remove(callId, 'undelivered')) === null) continue;
        pending.runtimeId = null;
        pending.at = 'nowhere';
        this.dispatch(pending);
      }
    }
  }

  private async lookAfter(connection: RuntimeConnection): Promise<void> {
    const now = Date.now();
    for (const call of connection.calls.values()) if (call.expiresAt < now - lookMs) connection.cancel(call.callId);
    const isNew = performance.now() - connection.openedAt < comesBackWithinMs;
    if (connection.isReady && !connection.isNamed && isNew) await this.giveWhatLies(connection, 'lying');
  }

  private async sweep(): Promise<void> {
    await this.attempt(async () => {
      await this.transit.sweep();
      await this.presence.sweep();
    });
  }

  /** Content never; once for as long as the database is away. */
  private async attempt(work: () => Promise<void> | void): Promise<void> {
    try {
      await work();
      this.faulty = false;
    } catch (error) {
      this.warn(error);
    }
  }

  private warn(error: unknown): void {
    if (!this.faulty)
      this.logger.warn(errorFacts(error), 'host calls of other replicas cannot be looked after; tried again');
    this.faulty = true;
  }

  private readiness(): { readonly state: 'ok' | 'degraded'; readonly why?: string; readonly runtimes: number } {
    const runtimes = this.byId.size;
    if (this.notices?.isListening() === true) return { state: 'ok', runtimes };
    return { state: 'degraded', why: 'it hears other replicas late: the database does not let it listen', runtimes };
  }
}

const foreignCalls = ({ calls }: RuntimeConnection, instance: string): readonly string[] =>
  [...calls.values()].filter(({ origin }) => origin !== instance).map(({ callId }) => callId);

const sentOf = ({ callId, member, frame, origin, leftMs }: TransitCall): SentCall => ({
  callId,
  member,
  frame,
  origin,
  expiresAt: Date.now() + leftMs,
});

/** The frame of a call (api.md, host calls). */
const frameOf = (request: HostCallRequest, timeoutMs: number): string => {
  const { callId, invocationId, pluginId, member, args, cause, scope } = request;
  return JSON.stringify({ type: 'call', callId, invocationId, pluginId, member, args, cause, scope, timeoutMs });
};

const noRuntime = (member: string): HostAnswer => ({
  kind: 'refused',
  code: 'no_runtime',
  message: `host.${member}: no runtime is connected to serve this call`,
});

const busy = (member: string): HostAnswer => ({
  kind: 'refused',
  code: 'runtime_busy',
  message: `host.${member}: the runtime has too many calls under way`,
});
