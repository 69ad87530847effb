import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';

/** A rule that nothing breaks proves nothing: each is broken here, in a small tree of the same layout. */

interface Violation {
  readonly rule: { readonly name: string };
  readonly from: string;
}

const root = join(import.meta.dirname, '..');
const config = join(root, '.dependency-cruiser.cjs');
const { forbidden } = createRequire(import.meta.url)(config) as { forbidden: readonly { readonly name: string }[] };

/** A file of the tree and the rules it breaks; none = it is allowed. */
interface Fixture {
  readonly path: string;
  readonly text: string;
  readonly breaks: readonly string[];
}

const libs = [
  'hooks',
  'record',
  'sandbox',
  'sdk',
  'dialects',
  'event-store',
  'proof',
  'sealing',
  'plugins',
  'approvals',
].concat(['audit', 'firing', 'keeping', 'lifecycles', 'platform', 'stranger']);

const packages = ['pg', 'typeorm', 'kafkajs', 'isolated-vm', '@nestjs/common', 'a-dev-tool'];

const uses = (what: string): string => `import { thing } from '${what}';\nexport const used = thing;\n`;
const usesType = (what: string): string => `import type { Thing } from '${what}';\nexport type Used = Thing;\n`;

const fixtures: readonly Fixture[] = [
  // The table, one wrong edge for every library.
  { path: 'libs/hooks/src/wrong.ts', text: uses('#record'), breaks: ['libs-hooks'] },
  { path: 'libs/hooks/src/wrong-type.ts', text: usesType('#record'), breaks: ['libs-hooks'] },
  { path: 'libs/record/src/wrong.ts', text: uses('#hooks'), breaks: ['libs-record'] },
  { path: 'libs/sandbox/src/wrong.ts', text: uses('#record'), breaks: ['libs-sandbox'] },
  { path: 'libs/sdk/src/wrong.ts', text: uses('#record'), breaks: ['libs-sdk'] },
  { path: 'libs/sdk/src/package.ts', text: uses('pg'), breaks: ['postgres-behind-the-store', 'sdk-stands-alone'] },
  { path: 'libs/sdk/src/node-only.ts', text: uses('node:fs'), breaks: ['sdk-stands-alone'] },
  { path: 'libs/sdk/src/node/files.ts', text: uses('node:fs'), breaks: [] },
  {
    path: 'libs/sdk/src/node/package.ts',
    text: uses('@nestjs/common'),
    breaks: ['nest-at-the-edge', 'sdk-for-node-without-packages'],
  },
  { path: 'libs/dialects/src/wrong.ts', text: uses('#sandbox'), breaks: ['libs-dialects'] },
  { path: 'libs/event-store/src/wrong.ts', text: uses('#sealing'), breaks: ['libs-event-store'] },
  { path: 'libs/kafka/src/wrong.ts', text: uses('#sealing'), breaks: ['libs-kafka'] },
  { path: 'libs/proof/src/wrong.ts', text: uses('#event-store'), breaks: ['libs-proof'] },
  { path: 'libs/sealing/src/wrong.ts', text: uses('#audit'), breaks: ['libs-sealing'] },
  { path: 'libs/plugins/src/wrong.ts', text: uses('#sealing'), breaks: ['libs-plugins'] },
  { path: 'libs/approvals/src/wrong.ts', text: uses('#plugins'), breaks: ['libs-approvals'] },
  { path: 'libs/keeping/src/wrong.ts', text: uses('#sealing'), breaks: ['libs-keeping'] },
  { path: 'libs/lifecycles/src/wrong.ts', text: uses('#plugins'), breaks: ['libs-lifecycles'] },
  { path: 'libs/audit/src/wrong.ts', text: uses('#plugins'), breaks: ['libs-audit'] },
  { path: 'libs/firing/src/wrong.ts', text: uses('#audit'), breaks: ['libs-firing'] },
  { path: 'libs/platform/src/wrong.ts', text: uses('#audit'), breaks: ['libs-platform'] },
  { path: 'libs/stranger/src/wrong.ts', text: uses('#record'), breaks: ['libs-have-a-place'] },
  // Right edges of the table.
  { path: 'libs/dialects/src/right.ts', text: uses('#hooks'), breaks: [] },
  { path: 'libs/audit/src/right.ts', text: uses('#sealing'), breaks: [] },
  { path: 'libs/firing/src/right.ts', text: uses('#sandbox'), breaks: [] },
  // Programs and libraries.
  { path: 'libs/platform/src/up.ts', text: uses('../../../apps/cli/src/main.js'), breaks: ['libs-never-import-apps'] },
  { path: 'apps/server/src/sideways.ts', text: uses('../../cli/src/main.js'), breaks: ['apps-never-import-apps'] },
  { path: 'apps/server/src/inside.ts', text: uses('./used.js'), breaks: [] },
  { path: 'apps/server/src/used.ts', text: 'export const thing = 1;\n', breaks: [] },
  {
    path: 'apps/server/src/deep.ts',
    text: uses('../../../libs/record/src/inner.js'),
    breaks: ['libs-entered-by-index'],
  },
  {
    path: 'libs/dialects/src/deep.ts',
    text: uses('../../record/src/inner.js'),
    breaks: ['libs-entered-by-index-from-libs'],
  },
  { path: 'libs/record/src/inner.ts', text: 'export const thing = 1;\n', breaks: [] },
  // Packages with a place of their own.
  { path: 'libs/audit/src/nest.ts', text: uses('@nestjs/common'), breaks: ['nest-at-the-edge'] },
  { path: 'libs/audit/src/nest-type.ts', text: usesType('@nestjs/common'), breaks: ['nest-at-the-edge'] },
  { path: 'libs/platform/src/nest.ts', text: uses('@nestjs/common'), breaks: [] },
  { path: 'apps/server/src/nest.ts', text: uses('@nestjs/common'), breaks: [] },
  { path: 'libs/audit/src/pg.ts', text: uses('pg'), breaks: ['postgres-behind-the-store'] },
  { path: 'libs/sealing/src/typeorm.ts', text: uses('typeorm'), breaks: ['postgres-behind-the-store'] },
  { path: 'apps/server/src/pg.ts', text: uses('pg'), breaks: ['postgres-behind-the-store'] },
  { path: 'libs/event-store/src/postgres/pg.ts', text: uses('pg'), breaks: [] },
  { path: 'migrations/m1.ts', text: uses('typeorm'), breaks: [] },
  { path: 'apps/server/src/control/kafka.ts', text: uses('kafkajs'), breaks: ['kafka-behind-the-port'] },
  { path: 'libs/kafka/src/kafkajs-other.ts', text: uses('kafkajs'), breaks: [] },
  { path: 'libs/firing/src/ivm.ts', text: uses('isolated-vm'), breaks: ['isolates-in-the-sandbox'] },
  { path: 'libs/sandbox/src/ivm.ts', text: uses('isolated-vm'), breaks: [] },
  {
    path: 'libs/hooks/src/file.ts',
    text: `import { readFileSync as thing } from 'node:fs';\nexport const used = thing;\n`,
    breaks: ['pure-libs-do-no-io'],
  },
  {
    path: 'libs/record/src/digest.ts',
    text: `import { createHash as thing } from 'node:crypto';\nexport const used = thing;\n`,
    breaks: [],
  },
  { path: 'apps/server/src/dev.ts', text: uses('a-dev-tool'), breaks: ['product-without-dev-dependencies'] },
  { path: 'apps/server/src/dev.spec.ts', text: uses('a-dev-tool'), breaks: [] },
  // The rest.
  { path: 'migrations/m2.ts', text: uses('#record'), breaks: ['migrations-stand-alone'] },
  { path: 'examples/plugins/reader/index.ts', text: uses('./part.js'), breaks: [] },
  { path: 'examples/plugins/writer/index.ts', text: uses('../reader/part.js'), breaks: ['plugins-stand-alone'] },
  { path: 'examples/plugins/asker/index.ts', text: uses('node:fs'), breaks: ['plugins-stand-alone'] },
  { path: 'examples/plugins/reader/part.ts', text: 'export const thing = 1;\n', breaks: [] },
  { path: 'apps/server/src/leans-on-a-spec.ts', text: uses('./leaf.spec.js'), breaks: ['specs-are-leaves'] },
  { path: 'apps/server/src/leaf.spec.ts', text: 'export const thing = 1;\n', breaks: [] },
  {
    path: 'apps/server/src/product-with-test-parts.ts',
    text: uses('../../../test/part.js'),
    breaks: ['product-without-test-parts'],
  },
  { path: 'test/part.ts', text: 'export const thing = 1;\n', breaks: [] },
  {
    path: 'apps/server/src/round.ts',
    text: `import { other } from './trip.js';\nexport const thing = () => other;\n`,
    breaks: ['no-cycles'],
  },
  // The other half of the round trip, which is reported once.
  {
    path: 'apps/server/src/trip.ts',
    text: `import { thing } from './round.js';\nexport const other = () => thing;\n`,
    breaks: [],
  },
  {
    path: 'apps/server/src/one-type.ts',
    text: `import type { Other } from './other-type.js';\nexport type Thing = Other | null;\n`,
    breaks: [],
  },
  {
    path: 'apps/server/src/other-type.ts',
    text: `import type { Thing } from './one-type.js';\nexport type Other = Thing[];\n`,
    breaks: [],
  },
  { path: 'apps/server/src/nowhere.ts', text: uses('#nowhere'), breaks: ['everything-resolves'] },
  {
    path: 'apps/server/src/built.ts',
    text: uses('../../../dist/libs/record/src/index.js'),
    breaks: ['never-the-build'],
  },
];

let tree = '';
let violations: readonly Violation[] = [];

const put = (path: string, text: string): void => {
  mkdirSync(dirname(join(tree, path)), { recursive: true });
  writeFileSync(join(tree, path), text);
};

beforeAll(() => {
  tree = mkdtempSync(join(tmpdir(), 'hookledger-import-rules-'));
  const imports = libs.map((lib): [string, object] => [
    `#${lib}`,
    { 'hookledger-source': `./libs/${lib}/src/index.ts`, default: `./dist/libs/${lib}/src/index.js` },
  ]);
  const dependencies = Object.fromEntries(
    packages.filter((name) => name !== 'a-dev-tool').map((name) => [name, '1.0.0']),
  );
  const manifest = {
    type: 'module',
    imports: Object.fromEntries(imports),
    dependencies,
    devDependencies: { 'a-dev-tool': '1.0.0' },
  };
  put('package.json', JSON.stringify(manifest));
  for (const name of packages) {
    put(`node_modules/${name}/package.json`, JSON.stringify({ name, version: '1.0.0', main: 'index.js' }));
    put(`node_modules/${name}/index.js`, 'exports.thing = 1;\n');
  }
  for (const lib of libs) put(`libs/${lib}/src/index.ts`, 'export const thing = 1;\nexport type Thing = number;\n');
  put('dist/libs/record/src/index.js', 'export const thing = 1;\n');
  put('apps/cli/src/main.ts', 'export const thing = 1;\n');
  for (const { path, text } of fixtures) put(path, text);

  const words = ['--config', config, '--output-type', 'json', 'apps', 'libs', 'migrations', 'examples', 'test'];
  const cli = join(root, 'node_modules/dependency-cruiser/bin/dependency-cruiser.mjs');
  const run = spawnSync(process.execPath, [cli, ...words], {
    cwd: tree,
    encoding: 'utf8',
    env: {},
    maxBuffer: 1 << 26,
  });
  violations = (JSON.parse(run.stdout) as { summary: { violations: Violation[] } }).summary.violations;
}, 60_000);

afterAll(() => {
  rmSync(tree, { recursive: true, force: true });
});

describe('the import rules', () => {
  it.each(fixtures.map((fixture) => [fixture.path, fixture.breaks] as const))('%s breaks %j', (path, breaks) => {
    const broken = violations.filter((violation) => violation.from === path).map((violation) => violation.rule.name);
    expect([...new Set(broken)].sort()).toEqual([...breaks].sort());
  });

  it('are each broken by one of these files', () => {
    const broken = new Set(fixtures.flatMap((fixture) => fixture.breaks));
    expect(forbidden.map((rule) => rule.name).filter((name) => !broken.has(name))).toEqual([]);
  });

  it('are applied to every folder with code', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      scripts: { imports: string };
    };
    for (const folder of ['apps', 'libs', 'migrations', 'test', 'examples', 'bench']) {
      expect(scripts.imports.split(' ')).toContain(folder);
    }
  });
});
