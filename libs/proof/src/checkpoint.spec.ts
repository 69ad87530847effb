import { readFileSync } from 'node:fs';
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { openCheckpoint, originOf, readCheckpoint, signCheckpoint } from './checkpoint.js';
import { readRoundLine, roundLine } from './sealing-round.js';
import type { SealingRound } from './sealing-round.js';
import type { NoteSigner, NoteVerifier } from './signed-note.js';
import { noteSigner, openNote, readVerifierKey, signNote, verifierKeyText } from './signed-note.js';

/** Made by golang.org/x/mod/sumdb/note; see `generate.go` beside it. */
const { notes } = JSON.parse(readFileSync(new URL('../vectors/golang-tlog.json', import.meta.url), 'utf8')) as {
  readonly notes: {
    readonly signerKey: string;
    readonly verifierKey: string;
    readonly witnessKey: string;
    readonly checkpoint: string;
    readonly cosigned: string;
    readonly words: string;
  };
};

const log = '0c5f9d3e-1d2a-4a5b-8c7d-112233445566';
const verifierOf = (text: string): NoteVerifier => {
  const verifier = readVerifierKey(text);
  if (verifier === null) throw new Error('no verifier key');
  return verifier;
};

/** `PRIVATE+KEY+name+id+base64(0x01 ‖ seed)`. */
const golangSigner = (): NoteSigner => {
  const seed = Buffer.from(notes.signerKey.split('+').slice(4).join('+'), 'base64').subarray(1);
  const pkcs8 = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]);
  return noteSigner(`hookledger/${log}`, createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' }));
};

const newSigner = (): NoteSigner => noteSigner(`hookledger/${log}`, generateKeyPairSync('ed25519').privateKey);

describe('a note beside that of golang.org/x/mod/sumdb/note', () => {
  it('is signed to the same bytes', () => {
    const [text = ''] = notes.checkpoint.split('\n\n');
    expect(signNote(`${text}\n`, golangSigner())).toBe(notes.checkpoint);
    expect(verifierKeyText(golangSigner())).toBe(notes.verifierKey);
  });

  it('is opened with its verifier key, also beside other signatures and with empty lines in its text', () => {
    const ours = verifierOf(notes.verifierKey);
    const witness = verifierOf(notes.witnessKey);
    expect(openCheckpoint(notes.checkpoint, [ours])).toMatchObject({
      kind: 'signed',
      checkpoint: { origin: originOf(log, 'a b'), size: 1000n },
    });
    expect(openNote(notes.cosigned, [ours])).toMatchObject({ kind: 'signed', by: [ours] });
    expect(openNote(notes.cosigned, [witness, ours])).toMatchObject({ kind: 'signed', by: [ours, witness] });
    expect(openNote(notes.words, [witness])).toMatchObject({ text: 'über\n\nempty lines are text\n' });
  });

  it('is unknown to who trusts another key', () => {
    expect(openNote(notes.checkpoint, [verifierOf(notes.witnessKey)])).toEqual({ kind: 'unknown' });
    expect(openNote(notes.checkpoint, [newSigner()])).toEqual({ kind: 'unknown' });
  });
});

describe('the example of C2SP signed-note', () => {
  const example = `Ognuno sta solo sul cuor della terra
trafitto da un raggio di sole:

ed è subito sera.

— quasimodo.example/salvatore NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMcXxj99ihAQwaqP3ZekRwNtIc=
`;
  it('is a note that nobody known has signed', () => {
    expect(openNote(example, [])).toEqual({ kind: 'unknown' });
  });
});

describe('the example of C2SP tlog-checkpoint', () => {
  const text = 'example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n';
  it('is read', () => {
    expect(readCheckpoint(text)).toMatchObject({ origin: 'example.com/behind-the-sofa', size: 20852163n });
    expect(readCheckpoint(`${text}an extension\n`)).toMatchObject({ size: 20852163n });
  });
});

describe('a signed checkpoint', () => {
  const signer = newSigner();
  const root = Buffer.alloc(32, 7);

  it('opens to what was signed, whatever the account is called', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', minLength: 1 }),
        fc.bigInt({ min: 0n, max: 2n ** 62n }),
        (account, size) => {
          fc.pre(account.isWellFormed());
          const checkpoint = { origin: originOf(log, account), size, root };
          const opened = openCheckpoint(signCheckpoint(checkpoint, signer), [signer]);
          expect(opened).toMatchObject({ kind: 'signed', checkpoint, by: [signer] });
        },
      ),
    );
  });

  it('does not open once any character of it is another', () => {
    const note = signCheckpoint({ origin: originOf(log, 'a'), size: 12n, root }, signer);
    fc.assert(
      fc.property(fc.nat(note.length - 1), fc.integer({ min: 32, max: 126 }), (at, code) => {
        const bent = note.slice(0, at) + String.fromCharCode(code) + note.slice(at + 1);
        fc.pre(bent !== note);
        expect(openCheckpoint(bent, [signer]).kind).not.toBe('signed');
      }),
    );
  });

  it.each([
    ['leading zero', 'o\n012\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n'],
    ['negative size', 'o\n-1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n'],
    ['short root', 'o\n1\nCsUY\n'],
    ['root in another spelling', 'o\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2J=\n'],
    ['no root', 'o\n1\n'],
    ['empty origin', '\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n'],
    ['empty line', 'o\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\nx\n'],
    ['no newline at its end', 'o\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I='],
  ])('is none with %s', (_what, text) => {
    expect(readCheckpoint(text)).toBeNull();
  });

  it.each([
    ['a control character', (note: string) => note.replace('12', '1\t2')],
    ['no blank line', (note: string) => note.replace('\n\n', '\n')],
    ['a hyphen for the dash', (note: string) => note.replace('—', '-')],
    ['text behind the signatures', (note: string) => `${note}x`],
    ['a lone surrogate', (note: string) => `\ud800${note}`],
  ])('is malformed with %s', (_what, bend) => {
    const note = signCheckpoint({ origin: originOf(log, 'a'), size: 12n, root }, signer);
    expect(openNote(bend(note), [signer])).toEqual({ kind: 'malformed' });
  });

  it('is forged when a known key is named that did not sign', () => {
    const note = signCheckpoint({ origin: originOf(log, 'a'), size: 12n, root }, signer);
    expect(openNote(note.replace('\n12\n', '\n13\n'), [signer])).toEqual({ kind: 'forged', by: signer });
  });
});

describe('a verifier key', () => {
  it('is read back, and refused when its id is not its own', () => {
    const signer = newSigner();
    const text = verifierKeyText(signer);
    expect(readVerifierKey(text)).toMatchObject({ name: signer.name, id: signer.id });
    const [name = '', , key = ''] = text.split(/\+(?=[\da-f]{8}\+|[^+]*$)/u);
    expect(readVerifierKey(`${name}+00000000+${key}`)).toBeNull();
    expect(readVerifierKey('nonsense')).toBeNull();
  });
});

describe('a line of a sealing round', () => {
  const signer = newSigner();
  const root = Buffer.alloc(32, 9);
  const round: SealingRound = {
    log,
    at: '2026-11-30T10:00:00.000Z',
    accounts: [
      { account: 'a"\u2028', size: 3n, root },
      { account: 'b', size: 9007199254740993n, root },
    ],
    notes: { b: signCheckpoint({ origin: originOf(log, 'b'), size: 9007199254740993n, root }, signer) },
  };
  const line = roundLine(round, signer);

  it('is one line and reads back as it was signed', () => {
    expect(line).not.toContain('\n');
    expect(readRoundLine(line, [signer])).toMatchObject({ kind: 'signed', round, by: signer });
  });

  it('is malformed where it was cut off', () => {
    for (const at of [0, 1, Math.floor(line.length / 2), line.length - 1]) {
      expect(readRoundLine(line.slice(0, at), [signer])).toEqual({ kind: 'malformed' });
    }
  });

  it('is forged when an account is taken from it, and unknown to who trusts another key', () => {
    const parsed = JSON.parse(line) as { accounts: unknown[] };
    parsed.accounts.pop();
    expect(readRoundLine(JSON.stringify(parsed), [signer])).toMatchObject({ kind: 'forged' });
    expect(readRoundLine(line, [newSigner()])).toEqual({ kind: 'unknown' });
  });
});
