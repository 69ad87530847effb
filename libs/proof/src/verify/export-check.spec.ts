import { generateKeyPairSync, hash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { originOf, signCheckpoint } from '../checkpoint.js';
import { GrowingTree } from '../growing-tree.js';
import { consistencyProof, inclusionProof } from '../proofs.js';
import { roundLine } from '../sealing-round.js';
import { noteSigner, readVerifierKey, verifierKeyText } from '../signed-note.js';
import type { TileSource } from '../tiles.js';
import { NoExport, verifyExport } from './export-check.js';
import type { Fault } from './fault.js';
import { bytesOfHash, leafHashOf } from './hashes.js';
import type { LogKey } from './trusted-keys.js';

const logId = '01890a5d-ac96-774b-bcce-b302099a8057';
const signer = noteSigner(`hookledger/${logId}`, generateKeyPairSync('ed25519').privateKey);
const at = '2026-01-02T03:04:05.678Z';

/** The bytes of an account's events; 300 of them, of which 280 are sealed. */
const purgeAt = 200;
const texts = Array.from({ length: 300 }, (_, n) => `{"account":"acme","data":{"n":${n}}}`);
texts[purgeAt] = `{"account":"acme","data":{"ranges":[{"first":"10","last":"19"}]},"type":"retention.purged"}`;
const leaves = texts.map((text) => bytesOfHash(leafHashOf(Buffer.from(`\0${text}`))));
const tiles = new Map<string, Uint8Array>();
const roots = new Map<number, Buffer>();
const tree = new GrowingTree();
for (const [n, leaf] of leaves.slice(0, 280).entries()) {
  tree.push(leaf);
  roots.set(n + 1, tree.root());
}
for (const { level, index, hashes } of tree.takeTiles()) tiles.set(`${level}/${index}`, hashes);
const source: TileSource = ({ level, index }) => tiles.get(`${level}/${index}`) ?? new Uint8Array();

const base64 = (hashes: readonly Uint8Array[]): readonly string[] =>
  hashes.map((bytes) => Buffer.from(bytes).toString('base64'));

const rootOf = (size: number): Buffer => roots.get(size) ?? Buffer.alloc(32);

const checkpointLine = (size: number, before: number | null): string =>
  JSON.stringify({
    size: String(size),
    root: rootOf(size).toString('base64'),
    signedAt: at,
    note: signCheckpoint({ origin: originOf(logId, 'acme'), size: BigInt(size), root: rootOf(size) }, signer),
    consistency: before === null ? [] : base64(consistencyProof(BigInt(before), BigInt(size)).hashes(source)),
  });

const proofLine = (position: number): string =>
  JSON.stringify({
    position: String(position),
    globalPosition: String(position),
    leaf: Buffer.from(leaves[position] ?? []).toString('hex'),
    proof: position < 280 ? base64(inclusionProof(BigInt(position), 280n).hashes(source)) : null,
  });

type Files = Map<string, string>;

const lined = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join('');

interface Asked {
  readonly positions: readonly number[];
  readonly manifest?: object;
  /** What is done to the files before their digests are taken, as a forger of the whole would. */
  readonly forge?: (files: Files) => void;
}

/** An export of some positions, in the form of docs/verification.md. */
const exportOf = ({ positions, manifest = {}, forge = () => undefined }: Asked): Files => {
  const keys = [
    { id: signer.id, name: signer.name, verifierKey: verifierKeyText(signer), validFrom: at, validUntil: null },
  ];
  const files: Files = new Map([
    ['events.jsonl', lined(positions.map((position) => texts[position] ?? ''))],
    ['proofs.jsonl', lined(positions.map(proofLine))],
    ['checkpoints.jsonl', lined([checkpointLine(100, null), checkpointLine(256, 100), checkpointLine(280, 256)])],
    ['log-keys.json', JSON.stringify({ logId, keys })],
  ]);
  forge(files);
  const digests = [...files].map(([name, text]) => [
    name,
    { sha256: hash('sha256', text), bytes: Buffer.byteLength(text) },
  ]);
  const said = {
    format: 'hookledger-export/1',
    logId,
    account: 'acme',
    complete: true,
    first: String(positions[0] ?? 0),
    last: String(positions.at(-1) ?? 0),
    events: positions.length,
    checkpoint: { size: '280', root: rootOf(280).toString('base64') },
    files: Object.fromEntries(digests) as object,
    ...manifest,
  };
  return files.set('manifest.json', JSON.stringify(said));
};

const keyOf = (text: string): LogKey | null => {
  const verifier = readVerifierKey(text);
  return verifier === null ? null : { verifier, validFrom: Date.parse(at), validUntil: null };
};

const verified = async (
  files: Files,
  more: { readonly logKeys?: readonly LogKey[]; readonly outside?: string } = {},
) => {
  const faults: Fault[] = [];
  const { logKeys = [], outside } = more;
  const summary = await verifyExport(
    { names: [...files.keys()], open: (name) => piecesOf(files.get(name) ?? '') },
    {
      logKeys,
      readKeys: (text) => {
        const { keys } = JSON.parse(text) as { keys: { verifierKey: string }[] };
        return keys.flatMap(({ verifierKey }) => keyOf(verifierKey) ?? []);
      },
      outside: outside === undefined ? null : oneLine(outside),
      onFault: (fault) => faults.push(fault),
      onProgress: () => undefined,
    },
  );
  return { summary, named: faults.map(({ code, position }) => `${code} ${position ?? '-'}`).sort() };
};

/** In pieces that end in the middle of lines. */
async function* piecesOf(text: string): AsyncIterable<Buffer> {
  const bytes = Buffer.from(text);
  for (let from = 0; from < bytes.length; from += 1_000)
    yield await Promise.resolve(bytes.subarray(from, from + 1_000));
}

async function* oneLine(text: string): AsyncIterable<{ readonly text: string; readonly ends: boolean }> {
  yield await Promise.resolve({ text, ends: true });
}

const from = (first: number, last: number): readonly number[] =>
  Array.from({ length: last - first + 1 }, (_, n) => first + n);

const range = (first: number, last: number) => ({ first: String(first), last: String(last) });

const trusted: LogKey = { verifier: signer, validFrom: Date.parse(at), validUntil: null };
const stranger = noteSigner(`hookledger/${logId}`, generateKeyPairSync('ed25519').privateKey);

describe('an export as it was made', () => {
  it.each<[string, Asked, number]>([
    ['of a whole log', { positions: from(0, 299) }, 280],
    ['of a part of it', { positions: from(50, 270) }, 221],
    ['of one event', { positions: [256] }, 1],
    ['of a selection', { positions: [3, 9, 255, 279], manifest: { complete: false } }, 4],
    [
      'of what a purge left',
      {
        positions: [...from(5, 9), ...from(20, 30), ...from(40, 50)],
        manifest: { first: '0', last: '60', purged: [range(0, 4), range(10, 19), range(31, 39), range(51, 60)] },
      },
      27,
    ],
  ])('%s is proven', async (_, asked, proven) => {
    const { summary, named } = await verified(exportOf(asked), { logKeys: [trusted] });
    expect(named).toEqual([]);
    expect(summary).toMatchObject({ ok: true, events: asked.positions.length, proven, checkpoints: 3 });
  });

  it('says that its keys are its own where none were given', async () => {
    const { summary } = await verified(exportOf({ positions: from(0, 9) }));
    expect(summary.notes.join(' ')).toContain('The public keys are the export’s own');
  });

  it('says how many positions are left out as purged on the word of its manifest alone', async () => {
    const left = [...from(0, 9), ...from(20, 220)];
    const recorded = await verified(exportOf({ positions: left, manifest: { purged: [range(10, 19)] } }));
    expect(recorded.summary.notes.join(' ')).not.toContain('purged');
    const early = left.filter((position) => position < purgeAt);
    const before = await verified(exportOf({ positions: early, manifest: { purged: [range(10, 19)] } }));
    expect(before.named).toEqual([]);
    expect(before.summary.notes.join(' ')).toContain(
      '10 positions are left out as purged, and no purge in this export',
    );
    const hiding = left.filter((position) => position < 30 || position > 32);
    const forged = await verified(
      exportOf({ positions: hiding, manifest: { purged: [range(10, 19), range(30, 32)] } }),
    );
    expect(forged.summary.notes.join(' ')).toContain('3 positions are left out as purged');
  });

  it('fits a checkpoint file that somebody kept, and a file of another log does not fit it', async () => {
    const line = (root: Uint8Array): string =>
      roundLine({ log: logId, at, accounts: [{ account: 'acme', size: 256n, root }], notes: {} }, signer);
    const files = exportOf({ positions: from(0, 9) });
    expect((await verified(files, { outside: line(rootOf(256)) })).summary.outside).toEqual({ lines: 1, compared: 1 });
    expect((await verified(files, { outside: line(rootOf(255)) })).named).toEqual(['outside-differs 255']);
  });
});

const edit =
  (name: string, change: (lines: string[]) => void) =>
  (files: Files): void => {
    const lines = (files.get(name) ?? '').trimEnd().split('\n');
    change(lines);
    files.set(name, lined(lines));
  };

describe('an export that somebody changed, with its digests made anew', () => {
  it.each<[string, Asked, readonly string[]]>([
    [
      'an event’s bytes',
      { positions: from(0, 9), forge: edit('events.jsonl', (lines) => (lines[4] = lines[4]?.replace('4', '5') ?? '')) },
      ['bytes-changed 4', 'proof-wrong 4'],
    ],
    [
      'an event left out, and its proof',
      {
        positions: from(0, 9),
        forge: (files) => {
          edit('events.jsonl', (lines) => lines.splice(4, 1))(files);
          edit('proofs.jsonl', (lines) => lines.splice(4, 1))(files);
        },
      },
      ['event-missing 4', 'manifest-wrong -'],
    ],
    [
      'the same, with the count put right',
      { positions: [0, 1, 2, 3, 5], manifest: { complete: true } },
      ['event-missing 4'],
    ],
    ['the end left out', { positions: from(0, 9), manifest: { last: '12' } }, ['event-missing 10']],
    ['a purge that covers too little', { positions: [0, 5], manifest: { purged: [range(1, 3)] } }, ['event-missing 4']],
    [
      'two events in each other’s place',
      {
        positions: from(0, 9),
        forge: edit('events.jsonl', (lines) => ([lines[4], lines[5]] = [lines[5] ?? '', lines[4] ?? ''])),
      },
      ['bytes-changed 4', 'bytes-changed 5', 'proof-wrong 4', 'proof-wrong 5'],
    ],
    [
      'an event of another account',
      { positions: [0], forge: (files) => files.set('events.jsonl', '{"account":"other","data":{}}\n') },
      ['bytes-changed 0', 'event-unreadable 0', 'proof-wrong 0'],
    ],
    [
      'a proof left out',
      {
        positions: [0],
        forge: edit('proofs.jsonl', (lines) => (lines[0] = (lines[0] ?? '').replace(/"proof":.*$/u, '"proof":null}'))),
      },
      ['proof-wrong 0'],
    ],
    [
      'fewer proofs than events',
      { positions: from(0, 2), forge: edit('proofs.jsonl', (lines) => lines.pop()) },
      ['event-missing 2', 'proof-wrong -'],
    ],
    [
      'a checkpoint left out, so that the next is not consistent with the one before',
      { positions: [0], forge: edit('checkpoints.jsonl', (lines) => lines.splice(1, 1)) },
      ['consistency-wrong 279'],
    ],
    [
      'a checkpoint with another root',
      {
        positions: [0],
        forge: edit('checkpoints.jsonl', (lines) => (lines[2] = (lines[2] ?? '').replace(/"root":"./u, '"root":"A'))),
      },
      ['checkpoint-changed 279'],
    ],
    [
      'a manifest with another root',
      { positions: [0], manifest: { checkpoint: { size: '280', root: rootOf(256).toString('base64') } } },
      ['manifest-wrong 279'],
    ],
  ])('%s', async (_, asked, named) => {
    expect((await verified(exportOf(asked), { logKeys: [trusted] })).named).toEqual(named);
  });
});

describe('an export whose files are not those of its manifest', () => {
  it('is found, file by file', async () => {
    const files = exportOf({ positions: from(0, 9) });
    files.set('events.jsonl', (files.get('events.jsonl') ?? '').replace(/\n$/u, ''));
    files.delete('checkpoints.jsonl');
    expect((await verified(files)).named).toEqual(['file-changed -', 'file-changed -', 'manifest-wrong 279']);
  });

  it('is not believed when another key signed it', async () => {
    const other = { verifier: stranger, validFrom: Date.parse(at), validUntil: null };
    const { named, summary } = await verified(exportOf({ positions: [0] }), { logKeys: [other] });
    expect(named).toEqual([
      'checkpoint-unsigned 255',
      'checkpoint-unsigned 279',
      'checkpoint-unsigned 99',
      'log-key-changed -',
      'manifest-wrong 279',
    ]);
    expect(summary.proven).toBe(0);
  });

  it.each<[string, string | null]>([
    ['without a manifest', null],
    ['with something else', 'x'],
    ['of another form', '{"format":"hookledger-export/9"}'],
  ])('is none %s', async (_, manifest) => {
    const files: Files = new Map(manifest === null ? [] : [['manifest.json', manifest]]);
    await expect(verified(files)).rejects.toThrow(NoExport);
  });
});
