import { Inject } from '@nestjs/common';
import { CommandHandler } from '@nestjs/cqrs';
import { v7 as uuidv7 } from 'uuid';
import type { EventStore } from '#event-store';
import type { CommandMeta, DoneCommand, Role } from '#platform';
import { AccountCommand, AccountCommandHandler, actorOf, EVENT_STORE, Problem, SEALING } from '#platform';
import { asData } from '#record';
import type { Sealing } from '#sealing';
import { claimLost } from '../accounts/change-account.js';
import { completing } from '../accounts/completion.js';
import { exportStream } from './export-order.js';
import type { NewExport } from './export-query.js';
import { pinRange, queryJson, readExportQuery } from './export-query.js';

/** Asks for an export: what it is of is fixed now, and a worker makes it. Answers with its id. */
export class CreateExport extends AccountCommand<string> {
  override readonly allows: readonly Role[] = ['auditor', 'admin', 'operator'];

  constructor(
    meta: CommandMeta,
    readonly wanted: NewExport,
  ) {
    super(meta);
  }
}

@CommandHandler(CreateExport)
export class CreateExportHandler extends AccountCommandHandler<CreateExport, string> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
  ) {
    super();
  }

  protected override async run(command: CreateExport): Promise<string> {
    const { meta, wanted } = command;
    const { account, caller } = meta;
    const content = wanted.content ?? 'none';
    if (content === 'full' && caller.content !== 'full') {
      throw new Problem(403, 'content_hidden', 'Opening content needs a key with `content: full`.');
    }
    const filter = readExportQuery(wanted.query);
    const { first, last } = await pinRange(this.store, account, filter);
    const events = last < first ? 0n : last - first + 1n;
    const exportId = uuidv7();
    const stream = exportStream(exportId);
    // Ids of people's sessions may stand in a query.
    const envelope = await this.sealing.envelope(account, { kind: 'account' });
    const data = asData({
      exportId,
      format: wanted.format,
      query: envelope.seal(queryJson(filter)),
      range: { first: String(first), last: String(events === 0n ? first : last), events: Number(events) },
      content,
      digest: null,
    });
    const result = await this.store.append({
      account,
      writes: [{ stream, expectedVersion: 0, events: [{ type: 'export.created', actor: actorOf(caller), data }] }],
      blobs: envelope.blobs(),
      commands: completing(command, stream, 202),
    });
    if (result.kind !== 'appended') throw claimLost();
    return exportId;
  }

  protected override replay(_command: CreateExport, done: DoneCommand): Promise<string> {
    return Promise.resolve(done.result.stream.slice(exportStream('').length));
  }
}
