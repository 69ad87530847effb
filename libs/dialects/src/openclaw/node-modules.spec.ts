import { posix } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { compile } from '../source/compile.js';
import { bundling } from './bundling.js';
import { givenModule } from './node-modules.js';

// eslint-disable-next-line @typescript-eslint/no-implied-eval, @typescript-eslint/no-unsafe-call -- what is tested is a text
const given = (name: string): unknown => new Function(givenModule(name) ?? '')();

const piece = fc.constantFrom('a', 'b.txt', '..', '.', '', '/', 'c.d.e', '.hidden', 'x/', '/y', 'z.');

describe('the path module that plugins get', () => {
  const path = given('node:path') as typeof posix;

  it('says what the one of Node says, of every path', () => {
    const absolute = (text: string): string => `/${text}`;
    fc.assert(
      fc.property(fc.array(piece, { minLength: 1, maxLength: 5 }), piece, (parts, other) => {
        const text = parts.join('/');
        expect(path.join(...parts)).toBe(posix.join(...parts));
        expect(path.normalize(text)).toBe(posix.normalize(text));
        expect(path.resolve('/', ...parts)).toBe(posix.resolve('/', ...parts));
        expect(path.basename(text)).toBe(posix.basename(text));
        expect(path.extname(text)).toBe(posix.extname(text));
        expect(path.isAbsolute(text)).toBe(posix.isAbsolute(text));
        expect(path.relative(absolute(text), absolute(other))).toBe(posix.relative(absolute(text), absolute(other)));
      }),
    );
  });
});

describe('the url module that plugins get', () => {
  it('makes paths of file URLs and back', () => {
    const url = given('url') as { fileURLToPath: typeof fileURLToPath; pathToFileURL: typeof pathToFileURL };
    expect(url.fileURLToPath('file:///a/b%20c.ts')).toBe(fileURLToPath('file:///a/b%20c.ts'));
    expect(url.pathToFileURL('/a/b c.ts').href).toBe(pathToFileURL('/a/b c.ts').href);
  });
});

describe('a package that a plugin has not', () => {
  it('fails where it is imported when it is needed, and at install where it is imported at once', async () => {
    const late = await compile({ source: 'export const f = () => import("zod");' }, 'javascript', bundling);
    expect(late).toMatchObject({ kind: 'compiled', code: expect.stringContaining("Cannot find package 'zod'") });
    const early = await compile({ source: 'import z from "zod"; export const f = () => z;' }, 'javascript', bundling);
    expect(early).toMatchObject({ kind: 'failed', line: 1 });
    const own = await compile({ source: 'export const f = () => import("./gone.js");' }, 'javascript', bundling);
    expect(own).toMatchObject({ kind: 'failed', line: 1 });
  });
});

describe('a module of which nothing is given', () => {
  it.each(['fs', 'node:child_process', '__proto__', 'constructor'])('is none of these: %s', (name) => {
    expect(givenModule(name)).toBeNull();
  });
});
