import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { BlobWrite } from '#event-store';
import type { Json, Sealed } from '#record';
import type { Envelope, KeyErasure, Scope, Sealing } from './sealing.js';

/** Sealing for one run of the contract. */
export interface SealingSubject {
  readonly sealing: Sealing & KeyErasure;
  /** Stores the blobs of an envelope, as the append that carries them does. */
  readonly store: (blobs: readonly BlobWrite[]) => Promise<void>;
  close(): Promise<void>;
}

const accountScope: Scope = { kind: 'account' };
const session = (id: string): Scope => ({ kind: 'session', id });

/** The rules that every sealing keeps. */
export const sealingContract = (name: string, openSubject: () => Promise<SealingSubject>): void => {
  describe(`${name} sealing`, () => {
    let subject: SealingSubject;
    let sealing: Sealing & KeyErasure;

    beforeAll(async () => {
      subject = await openSubject();
      sealing = subject.sealing;
    }, 60_000);

    afterAll(() => subject.close());

    const account = (): string => `a-${randomUUID()}`;
    const sealed = async (of: string, scope: Scope, work: (envelope: Envelope) => Sealed): Promise<Sealed> => {
      const envelope = await sealing.envelope(of, scope);
      const value = work(envelope);
      await subject.store(envelope.blobs());
      return value;
    };

    it('opens to the same JSON text, whatever text it was', async () => {
      const of = account();
      const text = fc.oneof(fc.string({ unit: 'binary' }), fc.string({ unit: 'grapheme', maxLength: 4_000 }));
      await fc.assert(
        fc.asyncProperty(fc.json({ stringUnit: text }), async (json) => {
          const value = await sealed(of, accountScope, (envelope) => envelope.sealText(json));
          expect(await sealing.openText(of, value)).toEqual({ kind: 'open', text: json });
        }),
        { numRuns: 60 },
      );
    });

    it.each<[string, Json]>([
      ['NUL', 'a\u0000b'],
      ['lone surrogates', ['\ud83d', '\udc00x', 'ok 😀 end', `${'x'.repeat(9_999)}\ud800`]],
      ['keys of any kind', { '\ud800': 1, '\u0000': 2, '': 3, 'a.b': { ['__proto__']: 4 } }],
      ['separators and bidi marks', '\u2028\u2029\u202e\ufeff'],
      ['null', null],
      ['a long text', 'word '.repeat(100_000)],
    ])('keeps %s', async (_what, value) => {
      const of = account();
      const one = await sealed(of, accountScope, (envelope) => envelope.seal(value));
      expect(await sealing.open(of, one)).toEqual({ kind: 'open', value });
    });

    it('keeps JSON text that holds raw lone surrogates, as escapes', async () => {
      const of = account();
      const one = await sealed(of, accountScope, (envelope) => envelope.sealText('["\ud800 and 😀"]'));
      expect(await sealing.openText(of, one)).toEqual({ kind: 'open', text: '["\\ud800 and 😀"]' });
    });

    it('keeps the digits of numbers that a double cannot hold', async () => {
      const of = account();
      const text = '[9007199254740993,0.1234567890123456789,1e400,-0,1.0]';
      const one = await sealed(of, accountScope, (envelope) => envelope.sealText(text));
      expect(await sealing.openText(of, one)).toEqual({ kind: 'open', text });
    });

    it.each([
      ['1,024 bytes stand inline', 1_022, false],
      ['1,025 bytes go to a blob', 1_023, true],
    ])('%s', async (_what, letters, isBlob) => {
      const envelope = await sealing.envelope(account(), accountScope);
      const value = envelope.seal('x'.repeat(letters));
      expect('$blob' in value).toBe(isBlob);
      expect(envelope.blobs()).toHaveLength(isBlob ? 1 : 0);
      expect(sealing.sizeOf(value)).toBe(letters + 2);
    });

    it('says the size of what it hides in bytes of JSON text', async () => {
      const envelope = await sealing.envelope(account(), accountScope);
      for (const text of ['""', 'null', '"ü"', `"${'😀'.repeat(500)}"`]) {
        expect(sealing.sizeOf(envelope.sealText(text))).toBe(Buffer.byteLength(text));
      }
    });

    it('seals equal text in one envelope once, and in two envelopes under different nonces', async () => {
      const of = account();
      const [one, other] = [await sealing.envelope(of, accountScope), await sealing.envelope(of, accountScope)];
      expect(one.seal({ a: 1 })).toBe(one.seal({ a: 1 }));
      expect(one.seal({ a: 1 })).not.toEqual(other.seal({ a: 1 }));
    });

    it('gives equal long text in one scope one blob, and in two scopes two', async () => {
      const of = account();
      const text = 'system prompt '.repeat(200);
      const hashes = async (scope: Scope): Promise<string[]> => {
        const envelope = await sealing.envelope(of, scope);
        envelope.seal(text);
        return envelope.blobs().map((blob) => blob.hash);
      };
      const first = await hashes(session('s-1'));
      expect(await hashes(session('s-1'))).toEqual(first);
      expect(await hashes(session('s-2'))).not.toEqual(first);
    });

    it('uses one key for one scope and another for each other scope', async () => {
      const of = account();
      const scopes: Scope[] = [accountScope, session('x'), session('y'), { kind: 'subject', id: 'x' }];
      const keyOf = async (at: string, scope: Scope): Promise<string> => {
        const value = (await sealing.envelope(at, scope)).seal(1);
        return '$sealed' in value ? value.$sealed.k : value.k;
      };
      const keys = await Promise.all(scopes.map((scope) => keyOf(of, scope)));
      const again = await Promise.all(scopes.map((scope) => keyOf(of, scope)));
      const elsewhere = await Promise.all(scopes.map((scope) => keyOf(account(), scope)));
      expect(again).toEqual(keys);
      expect(new Set([...keys, ...elsewhere]).size).toBe(8);
    });

    it('agrees on one key when many ask for a new scope at once', async () => {
      const of = account();
      const envelopes = await Promise.all(Array.from({ length: 20 }, () => sealing.envelope(of, session('new'))));
      const keys = envelopes.map((envelope) => {
        const value = envelope.seal(1);
        return '$sealed' in value ? value.$sealed.k : value.k;
      });
      expect(new Set(keys).size).toBe(1);
    });

    it('refuses a value of another account', async () => {
      const of = account();
      const value = await sealed(of, accountScope, (envelope) => envelope.seal('secret'));
      await expect(sealing.open(account(), value)).rejects.toThrow('another account');
    });

    it('refuses a value under a key that never was', async () => {
      const value: Sealed = { $sealed: { v: 1, k: 'no-such-key', b: '' } };
      await expect(sealing.open(account(), value)).rejects.toThrow('does not exist');
    });

    it('refuses a value that was changed, wherever it was changed', async () => {
      const of = account();
      const value = await sealed(of, accountScope, (envelope) => envelope.seal('secret'));
      if (!('$sealed' in value)) throw new Error('not inline');
      const bytes = Buffer.from(value.$sealed.b, 'base64');
      for (const at of [0, 11, 12, 14, bytes.length - 17, bytes.length - 1]) {
        const changed = Buffer.from(bytes);
        changed[at] = (changed[at] ?? 0) ^ 1;
        const forged: Sealed = { $sealed: { ...value.$sealed, b: changed.toString('base64') } };
        await expect(sealing.open(of, forged)).rejects.toThrow();
      }
      await expect(sealing.open(of, { $sealed: { ...value.$sealed, b: 'AAAA' } })).rejects.toThrow('cut short');
    });

    it('refuses a value that was moved under another scope’s key', async () => {
      const of = account();
      const value = await sealed(of, session('a'), (envelope) => envelope.seal('secret'));
      const other = await sealed(of, session('b'), (envelope) => envelope.seal('secret'));
      if (!('$sealed' in value && '$sealed' in other)) throw new Error('not inline');
      const moved: Sealed = { $sealed: { ...value.$sealed, k: other.$sealed.k } };
      await expect(sealing.open(of, moved)).rejects.toThrow();
    });

    it('shows nothing of the content in the sealed form', async () => {
      const of = account();
      const envelope = await sealing.envelope(of, accountScope);
      const values = [envelope.seal('visible?'), envelope.seal('visible? '.repeat(500))];
      const shown =
        JSON.stringify(values) +
        envelope
          .blobs()
          .map((b) => Buffer.from(b.bytes).toString('latin1'))
          .join();
      expect(shown).not.toContain('visible');
      expect(shown).not.toContain(Buffer.from('visible').toString('base64').slice(0, 8));
    });

    it('opens to erased, with its size, once its key is destroyed, and seals anew under another key', async () => {
      const of = account();
      const subjectScope: Scope = { kind: 'subject', id: 'alice@example.com' };
      const short = await sealed(of, subjectScope, (envelope) => envelope.seal('hello'));
      const long = await sealed(of, subjectScope, (envelope) => envelope.seal('x'.repeat(2_000)));
      const kept = await sealed(of, accountScope, (envelope) => envelope.seal('kept'));
      expect(await sealing.erase(of, subjectScope)).toHaveLength(1);
      expect(await sealing.open(of, short)).toEqual({ kind: 'erased', size: 7 });
      expect(await sealing.open(of, long)).toEqual({ kind: 'erased', size: 2_002 });
      expect(await sealing.open(of, kept)).toEqual({ kind: 'open', value: 'kept' });
      const later = await sealed(of, subjectScope, (envelope) => envelope.seal('again'));
      expect(await sealing.open(of, later)).toEqual({ kind: 'open', value: 'again' });
      expect(await sealing.open(of, short)).toEqual({ kind: 'erased', size: 7 });
      expect(await sealing.erase(of, session('never seen'))).toEqual([]);
    });

    it('makes search hashes that are equal for equal text in one account only', async () => {
      const [one, other] = [account(), account()];
      const hash = await sealing.searchHash(one, 'alice@example.com');
      expect(hash).toMatch(/^[\da-f]{64}$/u);
      expect(await sealing.searchHash(one, 'alice@example.com')).toBe(hash);
      expect(await sealing.searchHash(one, 'Alice@example.com')).not.toBe(hash);
      expect(await sealing.searchHash(other, 'alice@example.com')).not.toBe(hash);
    });
  });
};
