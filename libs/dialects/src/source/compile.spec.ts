import { existsSync } from 'node:fs';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import { compile, compilerName } from './compile.js';

const files = (entry: string, all: { readonly [path: string]: string }) => compile({ files: all, entry }, 'typescript');
const code = async (compiled: ReturnType<typeof compile>): Promise<string> => {
  const result = await compiled;
  if (result.kind === 'failed') throw new Error(result.message);
  return result.code;
};
/** What a script leaves in `globalThis.out`. */
const runs = async (compiled: ReturnType<typeof compile>): Promise<unknown> => {
  const world: { out?: unknown } = {};
  runInNewContext(await code(compiled), world);
  return JSON.parse(JSON.stringify(world.out)) as unknown;
};

describe('JavaScript', () => {
  it('that is a script is taken byte for byte (MW-6)', async () => {
    const source = '#!/usr/bin/env node\nglobalThis.out = "\ud800\u2028"; // ends without a line feed';
    expect(await compile({ source }, 'javascript')).toEqual({ kind: 'compiled', code: source, compiler: null });
  });

  it('with exports becomes a script', async () => {
    const compiled = await compile({ source: 'export const a = 1; globalThis.out = a;' }, 'javascript');
    expect(compiled).toMatchObject({ kind: 'compiled', compiler: compilerName });
    expect(await runs(compile({ source: 'export default 1; globalThis.out = 2;' }, 'javascript'))).toBe(2);
  });

  it('that does not parse fails with its place', async () => {
    expect(await compile({ source: 'let a = 1;\nlet b = async (x => {\n' }, 'javascript')).toMatchObject({
      kind: 'failed',
      file: 'plugin.js',
      line: 3,
      column: 1,
    });
  });

  it('that nests without end fails and ends nothing else', async () => {
    expect(await compile({ source: '['.repeat(500_000) }, 'javascript')).toMatchObject({
      kind: 'failed',
      message: 'Not enough stack space to parse input',
    });
  });
});

describe('TypeScript', () => {
  it('has its types stripped, not checked', async () => {
    const source =
      'const cut = (s: string | null): string | undefined => s?.slice(0, 3); const n: number = "x";\nglobalThis.out = cut("abcdef")!;';
    expect(await runs(compile({ source }, 'typescript'))).toBe('abc');
  });

  it('with type imports and exports becomes a script', async () => {
    const source = 'import type { X } from "somewhere"; export {}; const x: X = 5; globalThis.out = x;';
    expect(await runs(compile({ source }, 'typescript'))).toBe(5);
  });

  it('that does not parse fails with its place', async () => {
    expect(await compile({ source: 'const a: number = 1;\nconst b = (;' }, 'typescript')).toMatchObject({
      kind: 'failed',
      file: 'plugin.ts',
      line: 2,
      column: 12,
    });
  });

  it('with a lone surrogate is refused: it would not survive', async () => {
    expect(await compile({ source: 'globalThis.out = "\ud800";' }, 'typescript')).toMatchObject({
      kind: 'failed',
      file: 'plugin.ts',
    });
  });

  it('keeps texts beyond ASCII as they are', async () => {
    expect(await runs(compile({ source: 'globalThis.out = "é😀\\u0000";' }, 'typescript'))).toBe('é😀\u0000');
  });
});

describe('several files', () => {
  it('are what was sent, also where a file of that name lies in the folder of the program', async () => {
    expect(existsSync('jest.config.js')).toBe(true);
    expect(await runs(files('jest.config.js', { 'jest.config.js': 'export {}; globalThis.out = 1;' }))).toBe(1);
  });

  it('become one script; imports resolve among them', async () => {
    expect(
      await runs(
        files('src/index.ts', {
          'src/index.ts':
            'import { a } from "./a.js"; import b from "../b"; import c from "./c.json"; import { d } from "./d"; globalThis.out = [a, b, c.n, d];',
          'src/a.ts': 'export const a: number = 1;',
          'b.js': 'export default 2;',
          'src/c.json': '{"n":3}',
          'src/d/index.ts': 'export const d = 4;',
        }),
      ),
    ).toEqual([1, 2, 3, 4]);
  });

  it('may be CommonJS and may import each other', async () => {
    expect(
      await runs(
        files('a.js', {
          'a.js': 'const { b } = require("./b"); globalThis.out = b;',
          'b.js': 'require("./a"); exports.b = 7;',
        }),
      ),
    ).toBe(7);
  });

  it.each([
    ['node:fs', 'a package of Node'],
    ['typescript', 'a package of the server'],
    ['./package.json', 'a file of the server'],
    ['../../../../etc/passwd', 'a way out'],
    ['/etc/passwd', 'a path of the server'],
    ['https://x/y.js', 'an address'],
  ])('never reach %s: %s', async (path) => {
    const result = await files('index.js', {
      'index.js': `import x from ${JSON.stringify(path)}; globalThis.out = x;`,
    });
    expect(result).toMatchObject({ kind: 'failed', file: 'index.js', line: 1 });
    expect(result.kind === 'failed' && result.message).toContain("is not among the plugin's files");
  });

  it('that do not parse fail with file and place', async () => {
    expect(await files('a.ts', { 'a.ts': 'import "./b";', 'b.ts': '\n  let = ;' })).toMatchObject({
      kind: 'failed',
      file: 'b.ts',
      line: 2,
    });
  });

  it('need the entry among them, by its own name', async () => {
    expect(await files('main.ts', { 'a.ts': '' })).toMatchObject({
      kind: 'failed',
      message: 'entry "main.ts" is not among the files',
    });
    expect(await files('__proto__', { 'a.ts': '' })).toMatchObject({ kind: 'failed' });
  });

  it('compile at the same time without getting in each other’s way', async () => {
    const many = Array.from({ length: 8 }, (_, index) =>
      runs(
        files('a.ts', {
          'a.ts': `import { n } from './n'; globalThis.out = n;`,
          'n.ts': `export const n: number = ${String(index)};`,
        }),
      ),
    );
    expect(await Promise.all(many)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });
});
