import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { Body, Controller, Get, Header, HttpCode, Inject, Post, Req, Res, UseInterceptors } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';
import {
  ApiAcceptedResponse,
  ApiConflictResponse,
  ApiOkResponse,
  ApiOperation,
  ApiProduces,
  ApiTags,
} from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import tar from 'tar-stream';
import type { EventStore, Sql } from '#event-store';
import {
  Account,
  Allow,
  CurrentCaller,
  EVENT_STORE,
  Meta,
  PathId,
  Problem,
  queryWord,
  SEALING,
  SQL,
  StrictQuery,
  type Caller,
  type CommandMeta,
  type PlatformRequest,
  type QueryOf,
} from '#platform';
import type { Sealing } from '#sealing';
import { RecordReads } from '../audit/record-reads.js';
import { shownJson } from '../audit/shown-json.js';
import { CreateExport } from './create-export.js';
import type { SmallFile, StepFile } from './export-files.js';
import { ExportFiles, filesOf } from './export-files.js';
import type { ExportJob, ExportManifest, ExportPin } from './export-jobs.js';
import { exportJob, makeAgain } from './export-jobs.js';
import type { AskedExport } from './export-order.js';
import { orderedExport } from './export-order.js';
import { NewExport } from './export-query.js';
import { exportSchema } from './export-schemas.js';

const fileNames = [
  'manifest.json',
  'events.jsonl',
  'proofs.jsonl',
  'checkpoints.jsonl',
  'log-keys.json',
  'content.jsonl',
  'events.csv',
] as const;

const fileQuery = {
  name: queryWord('One file of the export instead of all in a tar.', fileNames, null),
} as const;

/** Exports of the record: asked for, looked at, fetched. */
@ApiTags('exports')
@Controller('v1/accounts/:account/exports')
export class ExportsController {
  constructor(
    private readonly bus: CommandBus,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SQL) private readonly sql: Sql,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(RecordReads) private readonly reads: RecordReads,
  ) {}

  @Post()
  @Allow('auditor', 'admin')
  @HttpCode(202)
  @Header('content-type', 'application/json; charset=utf-8')
  @ApiOperation({ summary: 'Ask for an export; what it holds is fixed now' })
  @ApiAcceptedResponse({ description: 'It is being made; look at it under `Location`.', schema: exportSchema })
  async create(
    @Meta() meta: CommandMeta,
    @Body() body: NewExport,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<string> {
    const command = new CreateExport(meta, body);
    const id = await this.bus.execute(command);
    void reply.header('location', `/v1/accounts/${encodeURIComponent(meta.account)}/exports/${id}`);
    if (command.done !== null) void reply.header('idempotency-replayed', 'true');
    return this.answer(await this.asked(meta.account, id), null, meta.caller);
  }

  @Get(':export')
  @Allow('auditor', 'admin')
  @UseInterceptors(RecordReads)
  @Header('content-type', 'application/json; charset=utf-8')
  @ApiOperation({ summary: 'How an export is, and its manifest when it is done' })
  @ApiOkResponse({ description: 'The manifest is that of the files.', schema: exportSchema })
  async read(
    @Account() account: string,
    @PathId('export', 'The export.') id: string,
    @CurrentCaller() caller: Caller,
  ): Promise<string> {
    return this.answer(await this.asked(account, id), await exportJob(this.sql, account, id), caller);
  }

  @Get(':export/file')
  @Allow('auditor', 'admin')
  @ApiOperation({ summary: 'The files of an export: a tar, or the CSV, or one of them' })
  @ApiProduces('application/x-tar', 'text/csv', 'application/x-ndjson', 'application/json')
  @ApiOkResponse({
    description: '`Content-Length` tells a download that was cut off; `Repr-Digest` is there for single files.',
    schema: { type: 'string', format: 'binary' },
  })
  @ApiConflictResponse({ description: 'It is not done, or what it holds was erased or purged since.' })
  async file(
    @Account() account: string,
    @PathId('export', 'The export.') id: string,
    @CurrentCaller() caller: Caller,
    @StrictQuery(fileQuery) { name }: QueryOf<typeof fileQuery>,
    @Req() request: PlatformRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const asked = await this.asked(account, id);
    if (asked.content === 'full' && caller.content !== 'full') {
      throw new Problem(403, 'content_hidden', 'This export has content: it needs a key with `content: full`.');
    }
    const { pin, manifest } = await this.made(asked);
    const wanted = name ?? (asked.format === 'csv' ? 'events.csv' : null);
    if (wanted !== null && wanted !== 'manifest.json' && !(filesOf(asked) as readonly string[]).includes(wanted)) {
      throw new Problem(404, 'unknown_file', 'This export has no such file.');
    }
    await this.reads.note(request);
    const files = new ExportFiles({ store: this.store, sql: this.sql, sealing: this.sealing }, asked, pin);
    void (wanted === null ? sendTar(reply, id, files, asked, manifest) : sendFile(reply, id, wanted, files, manifest));
  }

  private async asked(account: string, id: string): Promise<AskedExport> {
    const asked = await orderedExport(this.store, this.sealing, account, id);
    if (asked === null) throw new Problem(404, 'unknown_export', 'There is no such export.');
    return asked;
  }

  /** What was made, as long as the log still gives it. */
  private async made(asked: AskedExport): Promise<{ readonly pin: ExportPin; readonly manifest: ExportManifest }> {
    const { account, id, content } = asked;
    const job = await exportJob(this.sql, account, id);
    if (job?.pin === null || job?.manifest === null || job?.state !== 'done') {
      const failed = job?.state === 'failed';
      throw new Problem(
        409,
        failed ? 'export_failed' : 'export_not_ready',
        failed ? 'This export could not be made. Ask for another one.' : 'This export is not made yet.',
        [],
        failed ? {} : { 'retry-after': '1' },
      );
    }
    const changes = await this.store.readAccount(account, {
      after: BigInt(job.pin.madeAt) - 1n,
      limit: 1,
      types: content === 'full' ? ['retention.purged', 'payload.erased'] : ['retention.purged'],
    });
    if (changes.length === 0) return { pin: job.pin, manifest: job.manifest };
    await makeAgain(this.sql, account, id);
    throw new Problem(
      409,
      'export_outdated',
      'Something that it may hold was erased or purged since; it is being made again without it.',
      [],
      { 'retry-after': '1' },
    );
  }

  private async answer(asked: AskedExport, job: ExportJob | null, caller: Caller): Promise<string> {
    const { id, format, content, query, range, askedAt } = asked;
    const isVisible = content === 'none' || caller.content === 'full';
    const manifest = job?.state === 'done' ? job.manifest : null;
    const shown = {
      id,
      state: job?.state ?? 'waiting',
      format,
      content,
      query,
      range: { first: String(range.first), last: String(range.last < range.first ? range.first : range.last) },
      createdAt: askedAt,
      events: job?.progress ?? 0,
      manifest: manifest === null || !isVisible ? null : { ...manifest, query },
    };
    return shownJson(this.sealing, caller, asked.account, shown);
  }
}

const manifestText = (manifest: ExportManifest): Buffer => Buffer.from(`${JSON.stringify(manifest)}\n`);

const mediaTypes: { readonly [ending: string]: string } = {
  csv: 'text/csv; charset=utf-8; header=present',
  jsonl: 'application/x-ndjson; charset=utf-8',
  json: 'application/json; charset=utf-8',
};

const sendFile = (
  reply: FastifyReply,
  id: string,
  name: string,
  files: ExportFiles,
  manifest: ExportManifest,
): FastifyReply => {
  const own = manifestText(manifest);
  const file =
    name === 'manifest.json'
      ? { bytes: own.length, sha256: createHash('sha256').update(own).digest('hex') }
      : (manifest.files[name] ?? { bytes: 0, sha256: '' });
  const source =
    name === 'manifest.json' ? Readable.from([own]) : Readable.from(checked(files, name as StepFile, manifest));
  return reply
    .header('content-type', mediaTypes[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream')
    .header('content-length', file.bytes)
    .header('repr-digest', `sha-256=:${Buffer.from(file.sha256, 'hex').toString('base64')}:`)
    .header('content-disposition', `attachment; filename="hookledger-${id}.${name}"`)
    .header('cache-control', 'no-store')
    .send(source);
};

/** A tar of the manifest and then every file. */
const sendTar = (
  reply: FastifyReply,
  id: string,
  files: ExportFiles,
  asked: AskedExport,
  manifest: ExportManifest,
): FastifyReply => {
  const own = manifestText(manifest);
  const names = filesOf(asked);
  const sizes = [own.length, ...names.map((name) => manifest.files[name]?.bytes ?? 0)];
  const pack = tar.pack();
  const folder = `hookledger-export-${id}`;
  const mtime = new Date(manifest.createdAt);
  const fill = async (): Promise<void> => {
    pack.entry({ name: `${folder}/manifest.json`, mtime }, own);
    for (const name of names) {
      const size = manifest.files[name]?.bytes ?? 0;
      const entry = pack.entry({ name: `${folder}/${name}`, size, mtime });
      // A cut pack cuts its entry, which nobody else listens to: unheard, its error would end the program.
      entry.on('error', () => undefined);
      for await (const piece of checked(files, name, manifest)) {
        if (!entry.write(piece)) await drained(entry, pack);
      }
      await new Promise<void>((resolve) => entry.end(resolve));
    }
    pack.finalize();
  };
  // What was begun cannot be taken back: the connection is cut, and the length tells.
  fill().catch((error: unknown) => pack.destroy(error instanceof Error ? error : new Error('export')));
  return reply
    .header('content-type', 'application/x-tar')
    .header('content-length', tarSize(sizes))
    .header('content-disposition', `attachment; filename="${folder}.tar"`)
    .header('cache-control', 'no-store')
    .send(Readable.from(pack as AsyncIterable<Buffer>));
};

const drained = (entry: NodeJS.EventEmitter, pack: NodeJS.EventEmitter): Promise<void> =>
  new Promise((resolve, reject) => {
    const done = (): void => {
      pack.off('close', gone);
      resolve();
    };
    const gone = (): void => {
      entry.off('drain', done);
      reject(new Error('nobody reads on'));
    };
    entry.once('drain', done);
    pack.once('close', gone);
  });

/** A header of 512 bytes for each file, its bytes to the next 512, and two empty blocks at the end. */
const tarSize = (sizes: readonly number[]): number =>
  sizes.reduce((sum, size) => sum + 512 + Math.ceil(size / 512) * 512, 1_024);

/** A file's bytes, held against the manifest: what comes out otherwise than it was made ends the download. */
async function* checked(
  files: ExportFiles,
  name: StepFile | SmallFile,
  manifest: ExportManifest,
): AsyncGenerator<Buffer, void> {
  const wanted = manifest.files[name];
  const hash = createHash('sha256');
  let bytes = 0;
  let held: Buffer | null = null;
  for await (const piece of files.bytes(name)) {
    // The last piece goes out when all of it is known to be right.
    if (held !== null) yield held;
    held = piece;
    hash.update(piece);
    bytes += piece.length;
  }
  if (bytes !== wanted?.bytes || hash.digest('hex') !== wanted.sha256) {
    throw new Error(`${name} of an export is not what it was when it was made`);
  }
  if (held !== null) yield held;
}
