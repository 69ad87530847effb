import type { EventStore, Sql, StoredEvent } from '#event-store';
import { consistencyProof, InclusionWalk, noteVerifier, publicKeyOf, verifierKeyText } from '#proof';
import { leafHash } from '#record';
import type { Sealing } from '#sealing';
import { isSealed } from '#sealing';
import { shownJson } from '../audit/shown-json.js';
import { readTiles } from '../proofs/stored-tiles.js';
import { csvHead, csvLines } from './export-csv.js';
import type { ExportPin } from './export-jobs.js';
import type { ExportFilter, ExportRange, Selected } from './export-query.js';
import { selectEvents } from './export-query.js';

/** What an export is of. */
export interface ExportOrder {
  readonly account: string;
  readonly id: string;
  readonly format: 'jsonl' | 'csv';
  readonly content: 'full' | 'none';
  readonly filter: ExportFilter;
  readonly range: ExportRange;
}

/** Where the bytes of an export come from. */
export interface ExportSources {
  readonly store: EventStore;
  readonly sql: Sql;
  readonly sealing: Sealing;
}

/** The files of events, made a step at a time. */
export type StepFile = 'events.jsonl' | 'proofs.jsonl' | 'content.jsonl' | 'events.csv';
/** The files beside them. */
export type SmallFile = 'checkpoints.jsonl' | 'log-keys.json';

/** The files of an export but its manifest, in the order in which they are given. */
export const filesOf = ({
  format,
  content,
}: Pick<ExportOrder, 'format' | 'content'>): readonly (StepFile | SmallFile)[] => {
  if (format === 'csv') return ['events.csv'];
  const files = ['events.jsonl', 'proofs.jsonl', 'checkpoints.jsonl', 'log-keys.json'] as const;
  return content === 'full' ? [...files, 'content.jsonl'] : files;
};

const isStepFile = (name: string): name is StepFile =>
  ['events.jsonl', 'proofs.jsonl', 'content.jsonl', 'events.csv'].includes(name);

/**
 * The bytes of an export's files, out of the log and its tree. With the same order and pin they are the same each time,
 * so no copy of content is kept anywhere; memory holds a step of events.
 */
export class ExportFiles {
  private readonly walk: InclusionWalk | null;

  constructor(
    private readonly sources: ExportSources,
    private readonly order: ExportOrder,
    private readonly pin: Pick<ExportPin, 'treeSize' | 'checkpoints' | 'createdAt'>,
  ) {
    const { sql } = sources;
    this.walk =
      pin.treeSize === null
        ? null
        : new InclusionWalk(BigInt(pin.treeSize), (places) => readTiles(sql, order.account, places));
  }

  /** The events, in steps. */
  steps(): AsyncGenerator<Selected, void> {
    const { account, range, filter } = this.order;
    return selectEvents(this.sources.store, account, range, filter);
  }

  /** One file, whole, in pieces. */
  async *bytes(name: StepFile | SmallFile): AsyncGenerator<Buffer, void> {
    if (!isStepFile(name)) {
      yield await this.small(name);
      return;
    }
    const head = this.head(name);
    if (head.length > 0) yield head;
    for await (const { events } of this.steps()) {
      const piece = await this.step(name, events);
      if (piece.length > 0) yield piece;
    }
  }

  /** What stands in a file before its events. */
  head(name: StepFile): Buffer {
    return name === 'events.csv' ? Buffer.from(csvHead()) : Buffer.alloc(0);
  }

  /** What a step of events is in a file. */
  async step(name: StepFile, events: readonly StoredEvent[]): Promise<Buffer> {
    switch (name) {
      case 'events.jsonl':
        return Buffer.concat(events.flatMap(({ bytes }) => [bytes, newline]));
      case 'proofs.jsonl':
        return Buffer.from((await this.proofLines(events)).join(''));
      case 'content.jsonl':
        return Buffer.from((await this.contentLines(events)).join(''));
      case 'events.csv':
        return Buffer.from(csvLines(events, await this.datas(events)));
    }
  }

  /** `checkpoints.jsonl` and `log-keys.json`. */
  small(name: SmallFile): Promise<Buffer> {
    return name === 'log-keys.json' ? this.logKeys() : this.checkpoints();
  }

  /** One after another: the walk keeps what neighbours share, and the pool of connections is everybody's. */
  private async proofLines(events: readonly StoredEvent[]): Promise<readonly string[]> {
    const lines: string[] = [];
    for (const stored of events) lines.push(await this.proofLine(stored));
    return lines;
  }

  private async proofLine({ position, globalPosition, bytes }: StoredEvent): Promise<string> {
    const isSealedIn = this.walk !== null && position < this.walk.size;
    const proof = isSealedIn ? await this.walk.proof(position) : null;
    const line = {
      position: String(position),
      globalPosition: String(globalPosition),
      leaf: leafHash(bytes).toString('hex'),
      proof,
    };
    return `${JSON.stringify(line)}\n`;
  }

  private async datas(events: readonly StoredEvent[]): Promise<readonly string[]> {
    const { account, content } = this.order;
    const texts: string[] = [];
    for (let at = 0; at < events.length; at += openedAtOnce) {
      const some = events.slice(at, at + openedAtOnce);
      const opened = some.map(({ event }) => shownJson(this.sources.sealing, { content }, account, event.data));
      texts.push(...(await Promise.all(opened)));
    }
    return texts;
  }

  /** The data of events that have sealed values, opened. */
  private async contentLines(events: readonly StoredEvent[]): Promise<readonly string[]> {
    const sealed = events.filter(({ event }) => holdsSealed(event.data));
    const datas = await this.datas(sealed);
    return sealed.map(({ position }, index) => `{"position":"${String(position)}","data":${datas[index] ?? 'null'}}\n`);
  }

  private async checkpoints(): Promise<Buffer> {
    const { sql } = this.sources;
    const { account } = this.order;
    const rows = await sql.query<{ size: string; root: Buffer; note: string; signed_at: Date }>(
      'select size, root, note, signed_at from checkpoint where account = $1 and size = any ($2::bigint[]) order by size',
      [account, this.pin.checkpoints],
    );
    const lines: string[] = [];
    for (const [index, { size, root, note, signed_at }] of rows.entries()) {
      const before = rows[index - 1]?.size;
      lines.push(
        JSON.stringify({
          size,
          root: root.toString('base64'),
          signedAt: signed_at.toISOString(),
          note,
          consistency: before === undefined ? [] : await this.consistency(BigInt(before), BigInt(size)),
        }),
      );
    }
    return Buffer.from(lines.map((line) => `${line}\n`).join(''));
  }

  private async consistency(from: bigint, to: bigint): Promise<readonly string[]> {
    const plan = consistencyProof(from, to);
    const source = await readTiles(this.sources.sql, this.order.account, plan.tiles);
    return plan.hashes(source).map((hash) => hash.toString('base64'));
  }

  /** The keys as they were when the export was made: a rotation since changes no byte. */
  private async logKeys(): Promise<Buffer> {
    const { sql } = this.sources;
    const { checkpoints, createdAt } = this.pin;
    const { account } = this.order;
    const rows = await sql.query<{
      id: string;
      name: string;
      public_key: Buffer;
      valid_from: Date;
      valid_until: Date | null;
    }>(
      // Clocks differ: what signed a checkpoint of the export was in force, whatever the maker's clock said.
      `with made as (
         select greatest($3::timestamptz, max(signed_at)) as at from checkpoint
         where account = $1 and size = any ($2::bigint[])
       ) select id, name, public_key, valid_from, case when valid_until <= made.at then valid_until end as valid_until
       from log_key, made where valid_from <= made.at order by valid_from, id`,
      [account, checkpoints, createdAt],
    );
    const keys = rows.map(({ id, name, public_key, valid_from, valid_until }) => ({
      id,
      name,
      publicKey: public_key.toString('base64'),
      verifierKey: verifierKeyText(noteVerifier(name, publicKeyOf(public_key))),
      validFrom: valid_from.toISOString(),
      validUntil: valid_until?.toISOString() ?? null,
    }));
    return Buffer.from(`${JSON.stringify({ logId: await logIdOf(sql), keys })}\n`);
  }
}

/** Id of the log; null before its first start with proofs. */
export const logIdOf = async (sql: Sql): Promise<string | null> => {
  const [row] = await sql.query<{ log_id: string | null }>('select log_id from log_format');
  return row?.log_id ?? null;
};

const newline = Buffer.from('\n');

/** Events whose content is opened at the same time: keys and blobs come over the pool that firing hooks needs too. */
const openedAtOnce = 2;

const holdsSealed = (value: unknown): boolean => {
  if (typeof value !== 'object' || value === null) return false;
  return isSealed(value) || Object.values(value).some(holdsSealed);
};
