import { createHash } from 'node:crypto';
import { verifyConsistency, verifyInclusion } from '../proofs.js';
import { strictBase64 } from '../signed-note.js';
import { signedRootOf } from './checkpoint-check.js';
import type { Fault, FaultCode, OnFault } from './fault.js';
import { bytesOfHash, hexOf, leafHashOf } from './hashes.js';
import type { OutsideLine } from './outside-check.js';
import { spansOf, uncoveredBy, type Span } from './purge-claims.js';
import { readRoundLine } from '../sealing-round.js';
import type { LogKey, TrustedKeys } from './trusted-keys.js';

/** The files of an export. */
export interface ExportSource {
  readonly names: readonly string[];
  /** A file from its beginning, in pieces. */
  open(name: string): AsyncIterable<Buffer>;
}

/** What to verify an export with. */
export interface ExportOptions {
  /** Public keys from elsewhere; none = those in the export count. */
  readonly logKeys: readonly LogKey[];
  /** Reads the keys of `log-keys.json`; null for a text that holds none. */
  readonly readKeys: (text: string) => readonly LogKey[] | null;
  /** The lines of a checkpoint file that somebody kept; null without one. */
  readonly outside: AsyncIterable<OutsideLine> | null;
  readonly onFault: OnFault;
  readonly onProgress: (done: number, of: number) => void;
}

/** What a verification of an export found. */
export interface ExportSummary {
  readonly ok: boolean;
  readonly faults: number;
  readonly faultsByCode: Readonly<Record<string, number>>;
  readonly account: string;
  readonly events: number;
  /** Events whose inclusion proof was checked. */
  readonly proven: number;
  readonly checkpoints: number;
  readonly outside: { readonly lines: number; readonly compared: number } | null;
  readonly notes: readonly string[];
}

/** The folder is no export that this version knows; the words say why. */
export class NoExport extends Error {
  override readonly name = 'NoExport';
}

/** Verifies an export by itself: no database, no server. Throws `NoExport`, and what the source throws. */
export const verifyExport = async (source: ExportSource, options: ExportOptions): Promise<ExportSummary> =>
  new ExportVerification(source, options, readManifest(await wholeText(source, 'manifest.json'))).run();

interface Manifest {
  readonly logId: string | null;
  readonly account: string;
  readonly complete: boolean;
  readonly first: string | null;
  readonly last: string | null;
  readonly events: number;
  readonly purged: readonly { readonly first: string; readonly last: string }[];
  readonly checkpoint: { readonly size: string; readonly root: string | null } | null;
  readonly files: Readonly<Record<string, { readonly sha256: string; readonly bytes: number }>>;
}

const readManifest = (text: string | null): Manifest => {
  if (text === null) throw new NoExport('there is no manifest.json');
  const manifest = jsonOf(text) as (Partial<Manifest> & { readonly format?: unknown }) | null;
  if (manifest?.format !== 'hookledger-export/1') throw new NoExport('manifest.json is not one of hookledger-export/1');
  const { account, events, files } = manifest;
  if (typeof account !== 'string' || typeof events !== 'number' || typeof files !== 'object') {
    throw new NoExport('manifest.json lacks an account, a count of events or its files');
  }
  return {
    logId: manifest.logId ?? null,
    account,
    complete: manifest.complete === true,
    first: manifest.first ?? null,
    last: manifest.last ?? null,
    events,
    purged: Array.isArray(manifest.purged) ? manifest.purged : [],
    checkpoint: manifest.checkpoint ?? null,
    files,
  };
};

interface Head {
  readonly size: number;
  readonly root: Uint8Array;
}

class ExportVerification {
  private readonly byCode = new Map<string, number>();
  private readonly notes: string[] = [];
  private readonly heads = new Map<number, Uint8Array>();
  private head: Head | null = null;
  private counts = { events: 0, proven: 0, unsealed: 0, checkpoints: 0 };
  /** What purges removed, by the events of this export that are proven. */
  private readonly purges: Span[] = [];

  constructor(
    private readonly source: ExportSource,
    private readonly options: ExportOptions,
    private readonly manifest: Manifest,
  ) {}

  async run(): Promise<ExportSummary> {
    const keys = await this.keys();
    await this.checkCheckpoints(keys);
    await this.checkEvents();
    await this.checkOtherFiles();
    const outside = await this.compareOutside(keys);
    const faults = [...this.byCode.values()].reduce((sum, count) => sum + count, 0);
    return {
      ok: faults === 0,
      faults,
      faultsByCode: Object.fromEntries([...this.byCode].sort()),
      account: this.manifest.account,
      events: this.counts.events,
      proven: this.counts.proven,
      checkpoints: this.counts.checkpoints,
      outside,
      notes: this.noted(keys),
    };
  }

  private readonly report = (fault: Fault): void => {
    this.byCode.set(fault.code, (this.byCode.get(fault.code) ?? 0) + 1);
    this.options.onFault(fault);
  };

  private fault(code: FaultCode, at: string, found: string, position: number | null = null): void {
    this.report({ code, account: this.manifest.account, position, at, found });
  }

  private async keys(): Promise<TrustedKeys> {
    const { logKeys, readKeys } = this.options;
    const text = await wholeText(this.counted(), 'log-keys.json');
    const inside = text === null ? [] : readKeys(text);
    if (inside === null) this.fault('manifest-wrong', 'log-keys.json', 'it holds no public keys');
    if (logKeys.length === 0) return trusting(inside ?? [], 'record');
    for (const { verifier } of inside ?? []) {
      if (logKeys.some((key) => key.verifier.id === verifier.id)) continue;
      this.fault('log-key-changed', `log-keys.json ${verifier.id}`, 'it is not among the keys that were given');
    }
    return trusting(logKeys, 'given');
  }

  private async checkCheckpoints(keys: TrustedKeys): Promise<void> {
    const { account, logId, checkpoint } = this.manifest;
    let before: Head | null = null;
    for await (const line of this.lines('checkpoints.jsonl')) {
      this.counts.checkpoints += 1;
      const row = checkpointOf(line.toString('utf8'));
      if (row === null) {
        this.fault('checkpoint-unreadable', `checkpoints.jsonl line ${this.counts.checkpoints}`, 'it is no checkpoint');
        continue;
      }
      const signed = signedRootOf(row, { account, logId, keys, onFault: this.report });
      if (signed === null) continue;
      const now: Head = { size: row.size, root: bytesOfHash(signed) };
      if (before !== null && !isConsistent(before, now, row.consistency)) {
        const found = `the tree of ${now.size} events does not begin with the one of ${before.size}`;
        this.fault('consistency-wrong', `checkpoint of size ${now.size}`, found, now.size - 1);
      }
      this.heads.set(now.size, now.root);
      before = now;
    }
    if (checkpoint === null) return;
    const root = this.heads.get(Number(checkpoint.size));
    if (root === undefined || Buffer.from(root).toString('base64') !== checkpoint.root) {
      const found = `no checkpoint that a known key signed is of size ${checkpoint.size} and has that root`;
      this.fault('manifest-wrong', 'manifest.json checkpoint', found, Number(checkpoint.size) - 1);
    } else this.head = { size: Number(checkpoint.size), root };
  }

  private async checkEvents(): Promise<void> {
    if (!('events.jsonl' in this.manifest.files)) return;
    const proofs = this.lines('proofs.jsonl')[Symbol.asyncIterator]();
    const order = new PositionOrder(this.manifest, (code, found, position) =>
      this.fault(code, 'proofs.jsonl', found, position),
    );
    for await (const line of this.lines('events.jsonl')) {
      this.counts.events += 1;
      const said = await proofs.next();
      const proof = said.done === true ? null : proofOf(said.value.toString('utf8'));
      if (proof === null) {
        this.fault('proof-wrong', `proofs.jsonl line ${this.counts.events}`, 'there is no proof for this event');
        continue;
      }
      order.next(proof.position);
      this.checkEvent(line, proof);
      if (this.counts.events % 1_000 === 0) this.options.onProgress(this.counts.events, this.manifest.events);
    }
    if ((await proofs.next()).done !== true) {
      this.fault('manifest-wrong', 'proofs.jsonl', 'it has more lines than events.jsonl');
    }
    order.end();
    if (this.counts.events !== this.manifest.events) {
      const found = `it says ${this.manifest.events} events, and there are ${this.counts.events}`;
      this.fault('manifest-wrong', 'manifest.json events', found);
    }
  }

  private checkEvent(line: Buffer, { position, leaf, path }: ProofLine): void {
    const hash = leafHashOf(Buffer.concat([leafMark, line]));
    const event = jsonOf(line.toString('utf8')) as LineEvent | null;
    if (event?.account !== this.manifest.account) {
      const found = event === null ? 'the line is no event' : 'the event is of another account';
      this.fault('event-unreadable', `events.jsonl line ${this.counts.events}`, found, position);
    }
    if (hexOf(hash) !== leaf) {
      const found = `the bytes hash to ${hexOf(hash)}, and the proof is of ${leaf}`;
      this.fault('bytes-changed', `events.jsonl line ${this.counts.events}`, found, position);
    }
    if (path === null) {
      this.counts.unsealed += 1;
      if (this.head === null || position >= this.head.size) return;
      this.fault('proof-wrong', 'proofs.jsonl', 'the event is sealed, and its proof is left out', position);
      return;
    }
    const { head } = this;
    // Without a checkpoint that holds there is nothing for a path to lead to; that is a fault of its own.
    if (head === null) return;
    if (verifyInclusion(bytesOfHash(hash), BigInt(position), BigInt(head.size), path, head.root)) {
      this.counts.proven += 1;
      if (event?.type === 'retention.purged') this.purges.push(...spansOf(event.data?.ranges));
    } else
      this.fault(
        'proof-wrong',
        'proofs.jsonl',
        `its path does not lead to the checkpoint of size ${head.size}`,
        position,
      );
  }

  /** What no check went through line by line is held to its digest all the same. */
  private async checkOtherFiles(): Promise<void> {
    for (const name of Object.keys(this.manifest.files)) {
      if (!this.read.has(name)) await drain(this.bytes(name));
    }
    const unnamed = this.source.names.filter((name) => name !== 'manifest.json' && !(name in this.manifest.files));
    if (unnamed.length > 0)
      this.notes.push(`The manifest does not name ${unnamed.join(', ')}: nothing vouches for it.`);
  }

  private readonly read = new Set<string>();

  private counted(): ExportSource {
    return { names: this.source.names, open: (name) => this.bytes(name) };
  }

  /** The bytes of a file; at its end they are held against the manifest. */
  private async *bytes(name: string): AsyncIterable<Buffer> {
    this.read.add(name);
    const said = this.manifest.files[name];
    if (!this.source.names.includes(name)) {
      if (said !== undefined) this.fault('file-changed', name, 'it is not there');
      return;
    }
    const digest = createHash('sha256');
    let size = 0;
    for await (const piece of this.source.open(name)) {
      digest.update(piece);
      size += piece.length;
      yield piece;
    }
    if (said === undefined) this.fault('manifest-wrong', name, 'the manifest does not name it');
    else if (digest.digest('hex') !== said.sha256 || size !== said.bytes) {
      this.fault('file-changed', name, `it is not the file of ${said.bytes} bytes that the manifest names`);
    }
  }

  private async *lines(name: string): AsyncIterable<Buffer> {
    let rest: Buffer[] = [];
    for await (const piece of this.bytes(name)) {
      let from = 0;
      for (let at = piece.indexOf(10); at !== -1; at = piece.indexOf(10, from)) {
        yield rest.length === 0 ? piece.subarray(from, at) : Buffer.concat([...rest, piece.subarray(from, at)]);
        rest = [];
        from = at + 1;
      }
      if (from < piece.length) rest.push(piece.subarray(from));
    }
    if (rest.length > 0) yield Buffer.concat(rest);
  }

  /** Where the file that somebody kept has a checkpoint of the same size, its root must be the same. */
  private async compareOutside(keys: TrustedKeys): Promise<ExportSummary['outside']> {
    const { outside } = this.options;
    if (outside === null) return null;
    let [lines, compared] = [0, 0];
    const told = new Set<number>();
    for await (const line of outside) {
      lines += 1;
      const read = readRoundLine(line.text, keys.verifiers);
      if (read.kind !== 'signed') continue;
      const there = read.round.accounts.find(({ account }) => account === this.manifest.account);
      const here = there === undefined ? undefined : this.heads.get(Number(there.size));
      if (there === undefined || here === undefined) continue;
      compared += 1;
      if (Buffer.compare(here, there.root) === 0 || told.has(Number(there.size))) continue;
      told.add(Number(there.size));
      const found = `the line that was signed at ${read.round.at} has another root for the first ${there.size} events`;
      this.fault('outside-differs', `checkpoints.jsonl line ${lines}`, found, Number(there.size) - 1);
    }
    if (compared === 0)
      this.notes.push('The checkpoint file has no checkpoint of a size that the export has: nothing was compared.');
    return { lines, compared };
  }

  private noted(keys: TrustedKeys): readonly string[] {
    const { unsealed } = this.counts;
    const { files, complete, checkpoint, purged } = this.manifest;
    // A purge after the last event of the export is not in it, so its manifest alone may say so. A forger's says it too.
    const claimed = uncoveredBy(this.purges, spansOf(purged));
    if (claimed > 0) {
      this.notes.push(
        `${claimed} positions are left out as purged, and no purge in this export says so: ask for the log to be verified.`,
      );
    }
    if (keys.from === 'record') {
      this.notes.push(
        'The public keys are the export’s own: whoever forged it could have made them. Give them with --log-key or --checkpoints.',
      );
    }
    if (unsealed > 0)
      this.notes.push(`${unsealed} events were not sealed yet when they were exported: nothing proves them.`);
    if (checkpoint === null && 'events.jsonl' in files) this.notes.push('Nothing was sealed when this was exported.');
    if (!complete) this.notes.push('It is a selection: what it leaves out cannot be seen from it.');
    if ('events.csv' in files) this.notes.push('A CSV has no proofs: only its digest was checked.');
    if ('content.jsonl' in files) {
      this.notes.push('content.jsonl is what the server opened: the proofs are of the sealed form of it.');
    }
    return this.notes;
  }
}

/** What is looked at in the text of an event. */
interface LineEvent {
  readonly account?: unknown;
  readonly type?: unknown;
  readonly data?: { readonly ranges?: unknown } | null;
}

const leafMark = Buffer.from([0]);

const trusting = (keys: readonly LogKey[], from: TrustedKeys['from']): TrustedKeys => ({
  keys,
  verifiers: keys.map(({ verifier }) => verifier),
  from,
  newer: [],
});

/** Positions rise; where the export claims to be complete they leave nothing out but what was purged. */
class PositionOrder {
  private before = -1;
  private first = -1;
  private purgedAt = 0;

  constructor(
    private readonly manifest: Manifest,
    private readonly fault: (code: FaultCode, found: string, position: number) => void,
  ) {}

  next(position: number): void {
    if (position <= this.before) {
      this.fault('out-of-order', 'its position is not above that of the event before', position);
      return;
    }
    if (this.first === -1) this.first = position;
    this.expect(this.before === -1 ? Number(this.manifest.first ?? position) : this.before + 1, position);
    this.before = position;
  }

  end(): void {
    const { first, last, complete } = this.manifest;
    if (complete && last !== null) this.expect(this.before + 1, Number(last) + 1);
    const outOfRange =
      this.before !== -1 && (this.first < Number(first ?? 0) || this.before > Number(last ?? Infinity));
    if (outOfRange) this.fault('manifest-wrong', `the manifest says ${first ?? '-'} to ${last ?? '-'}`, this.before);
  }

  /** Nothing may be missing from `from` up to `until`, which is there, unless it was purged. */
  private expect(from: number, until: number): void {
    if (!this.manifest.complete) return;
    let at = from;
    for (let purged = this.manifest.purged[this.purgedAt]; at < until && purged !== undefined;) {
      if (Number(purged.first) > at) break;
      at = Math.max(at, Math.min(Number(purged.last) + 1, until));
      if (Number(purged.last) >= until) break;
      this.purgedAt += 1;
      purged = this.manifest.purged[this.purgedAt];
    }
    if (at < until)
      this.fault('event-missing', `positions ${at} to ${until - 1} are left out, and were not purged`, at);
  }
}

interface ProofLine {
  readonly position: number;
  readonly leaf: string;
  readonly path: readonly Uint8Array[] | null;
}

const proofOf = (text: string): ProofLine | null => {
  const { position, leaf, proof } = (jsonOf(text) ?? {}) as { position?: unknown; leaf?: unknown; proof?: unknown };
  if (typeof position !== 'string' || !/^\d{1,16}$/u.test(position) || typeof leaf !== 'string') return null;
  if (proof === null) return { position: Number(position), leaf, path: null };
  const path = hashesOf(proof);
  return path === null ? null : { position: Number(position), leaf, path };
};

const checkpointOf = (text: string) => {
  const { size, root, signedAt, note, consistency } = (jsonOf(text) ?? {}) as Record<string, unknown>;
  const path = hashesOf(consistency);
  if (typeof size !== 'string' || typeof root !== 'string' || typeof note !== 'string' || path === null) return null;
  return {
    size: Number(size),
    root: Buffer.from(root, 'base64'),
    note,
    signedAt: Date.parse(String(signedAt)),
    keyId: null,
    consistency: path,
  };
};

const hashesOf = (value: unknown): readonly Uint8Array[] | null => {
  if (!Array.isArray(value)) return null;
  const hashes = (value as readonly unknown[]).map((hash) => (typeof hash === 'string' ? strictBase64(hash) : null));
  return hashes.every((hash) => hash?.length === 32) ? (hashes as readonly Buffer[]) : null;
};

const isConsistent = (before: Head, now: Head, path: readonly Uint8Array[]): boolean =>
  verifyConsistency({ size: BigInt(before.size), root: before.root }, { size: BigInt(now.size), root: now.root }, path);

const drain = async (pieces: AsyncIterable<Buffer>): Promise<void> => {
  const iterator = pieces[Symbol.asyncIterator]();
  while ((await iterator.next()).done !== true);
};

const jsonOf = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
};

const wholeText = async (source: ExportSource, name: string): Promise<string | null> => {
  if (!source.names.includes(name)) return null;
  const pieces: Buffer[] = [];
  for await (const piece of source.open(name)) pieces.push(piece);
  return Buffer.concat(pieces).toString('utf8');
};
