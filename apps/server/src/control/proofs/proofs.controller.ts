import { applyDecorators, Controller, Get, Header, Inject, UseInterceptors } from '@nestjs/common';
import { ApiNotFoundResponse, ApiOkResponse, ApiOperation, ApiProduces, ApiTags } from '@nestjs/swagger';
import type { EventStore, Sql } from '#event-store';
import type { QueryOf } from '#platform';
import { Account, Allow, EVENT_STORE, PathId, pathPointer, Problem, queryPointer, SQL, StrictQuery } from '#platform';
import type { ProofPlan } from '#proof';
import {
  consistencyProof,
  inclusionProof,
  leafProof,
  rootProof,
  sameBytes,
  verifyConsistency,
  verifyInclusion,
} from '#proof';
import { leafHash } from '#record';
import { RecordReads } from '../audit/record-reads.js';
import { consistencyFields, consistencySchema, proofFields, proofSchema } from './proof-schemas.js';
import { changedIfShort, readTiles, TreeChanged } from './stored-tiles.js';

/** What a verifier needs to see that one event is in the tree that was signed. */
interface InclusionAnswer {
  readonly account: string;
  readonly position: string;
  readonly size: string;
  readonly rootHash: string;
  /** The stored bytes; null where they were purged. */
  readonly leafBytes: string | null;
  readonly leafHash: string;
  readonly inclusionPath: readonly string[];
  /** The signed checkpoint of this very size, if there is one. */
  readonly checkpoint: string | null;
}

/** What a verifier needs to see that a log was only added to. */
interface ConsistencyAnswer {
  readonly account: string;
  readonly from: string;
  readonly to: string;
  readonly fromRootHash: string;
  readonly toRootHash: string;
  readonly consistencyPath: readonly string[];
  readonly checkpoint: string | null;
}

interface SealedTree {
  /** Leaves of the tree. */
  readonly size: bigint;
  /** Size of the newest checkpoint. */
  readonly signed: bigint;
}

const ProofRoute = (summary: string, schema: object): MethodDecorator =>
  applyDecorators(
    Allow('auditor'),
    UseInterceptors(RecordReads),
    ApiOperation({ summary }),
    ApiOkResponse({ description: 'Hashes and bytes in base64.', schema }),
    ApiNotFoundResponse({ description: 'No such account, no such event, or it is not sealed yet.' }),
  );

/** Checkpoints and proofs of an account (events.md §5). */
@ApiTags('proofs')
@Controller('v1/accounts/:account')
export class ProofsController {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(SQL) private readonly sql: Sql,
  ) {}

  @Get('checkpoint')
  @Allow('auditor')
  @Header('content-type', 'text/plain; charset=utf-8')
  @Header('cache-control', 'no-cache')
  @ApiOperation({ summary: 'The newest signed checkpoint' })
  @ApiProduces('text/plain')
  @ApiOkResponse({
    description: 'A checkpoint (C2SP tlog-checkpoint) as a signed note: origin, size, root; Ed25519.',
    schema: { type: 'string' },
  })
  @ApiNotFoundResponse({ description: 'No such account, or nothing of it is sealed yet.' })
  async checkpoint(@Account() account: string): Promise<string> {
    const [row] = await this.sql.query<{ note: string }>(
      'select note from checkpoint where account = $1 order by size desc limit 1',
      [account],
    );
    if (row === undefined) throw nothingSealed();
    return row.note;
  }

  @Get('events/:position/proof')
  @ProofRoute('An event and the proof that it is in the tree', proofSchema)
  async proof(
    @Account() account: string,
    @PathId('position', 'The position of the event.') positionText: string,
    @StrictQuery(proofFields) query: QueryOf<typeof proofFields>,
  ): Promise<InclusionAnswer> {
    const position = positionOf(positionText);
    const tree = await this.tree(account);
    if (position >= tree.size) throw await this.notInTree(account, position, tree);
    const size = query.size ?? (position < tree.signed ? tree.signed : tree.size);
    if (size > tree.size) throw badSize('size', `is beyond what is sealed, ${String(tree.size)}`);
    if (position >= size) throw badSize('size', 'is too small for this position to be in the tree');
    const plans = [inclusionProof(position, size), rootProof(size), leafProof(position)] as const;
    const [path, [root = none], [leaf = none]] = await this.hashes(account, ...plans);
    const range = { after: position - 1n, until: position, limit: 1 };
    const [stored] = await this.store.readAccount(account, range);
    const isLeaf = stored === undefined || sameBytes(leafHash(stored.bytes), leaf);
    if (!isLeaf || !verifyInclusion(leaf, position, size, path, root)) throw treeChanged();
    return {
      account,
      position: String(position),
      size: String(size),
      rootHash: base64(root),
      leafBytes: stored === undefined ? null : base64(stored.bytes),
      leafHash: base64(leaf),
      inclusionPath: path.map(base64),
      checkpoint: await this.checkpointAt(account, size),
    };
  }

  @Get('consistency')
  @ProofRoute('The proof that the log was only added to between two sizes', consistencySchema)
  async consistency(
    @Account() account: string,
    @StrictQuery(consistencyFields) query: QueryOf<typeof consistencyFields>,
  ): Promise<ConsistencyAnswer> {
    const { from } = query;
    if (from === null) throw badSize('from', 'is missing: the older size');
    const tree = await this.tree(account);
    const to = query.to ?? (from <= tree.signed ? tree.signed : tree.size);
    if (to > tree.size) throw badSize('to', `is beyond what is sealed, ${String(tree.size)}`);
    if (from > tree.size) throw badSize('from', `is beyond what is sealed, ${String(tree.size)}`);
    if (from > to) throw badSize('from', 'is above `to`');
    const plans = [consistencyProof(from, to), rootProof(from), rootProof(to)] as const;
    const [path, [older = none], [newer = none]] = await this.hashes(account, ...plans);
    if (!verifyConsistency({ size: from, root: older }, { size: to, root: newer }, path)) throw treeChanged();
    return {
      account,
      from: String(from),
      to: String(to),
      fromRootHash: base64(older),
      toRootHash: base64(newer),
      consistencyPath: path.map(base64),
      checkpoint: await this.checkpointAt(account, to),
    };
  }

  private async tree(account: string): Promise<SealedTree> {
    const text = 'select size, signed from tree where account = $1';
    const [row] = await this.sql.query<{ size: string; signed: string }>(text, [account]);
    return { size: BigInt(row?.size ?? 0), signed: BigInt(row?.signed ?? 0) };
  }

  private async notInTree(account: string, position: bigint, { size }: SealedTree): Promise<Problem> {
    if (position >= (await this.store.accountSize(account))) {
      return new Problem(404, 'unknown_event', 'There is no event at this position.');
    }
    return new Problem(404, 'not_sealed', `This event is not sealed yet; what is below ${String(size)} is.`);
  }

  private async checkpointAt(account: string, size: bigint): Promise<string | null> {
    const text = 'select note from checkpoint where account = $1 and size = $2';
    const [row] = await this.sql.query<{ note: string }>(text, [account, String(size)]);
    return row?.note ?? null;
  }

  /** The hashes of several plans, from one look at the tiles. */
  private async hashes<P extends readonly ProofPlan[]>(
    account: string,
    ...plans: P
  ): Promise<{ readonly [N in keyof P]: readonly Buffer[] }> {
    try {
      const source = await readTiles(
        this.sql,
        account,
        plans.flatMap(({ tiles }) => tiles),
      );
      const hashes = changedIfShort(() => plans.map((plan) => plan.hashes(source)));
      return hashes as unknown as { readonly [N in keyof P]: readonly Buffer[] };
    } catch (error) {
      if (!(error instanceof TreeChanged)) throw error;
      throw treeChanged();
    }
  }
}

const positionOf = (text: string): bigint => {
  if (/^\d{1,18}$/u.test(text)) return BigInt(text);
  throw new Problem(400, 'bad_position', 'The position in the path does not fit.', [
    { pointer: pathPointer('position'), reason: 'must be a position: a whole number, as text' },
  ]);
};

const nothingSealed = (): Problem =>
  new Problem(404, 'not_sealed', 'Nothing of this account is sealed yet; a checkpoint follows within seconds.');

const badSize = (name: string, reason: string): Problem =>
  new Problem(400, 'bad_query', 'The query parameters do not fit.', [{ pointer: queryPointer(name), reason }]);

/** No proof is given that would not hold. */
const treeChanged = (): Problem =>
  new Problem(500, 'tree_changed', 'What is stored is not what was sealed. Run hookledger verify.');

const none = Buffer.alloc(0);
const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
