import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { compile, dialectOf } from '#dialects';
import { eventTypes } from '#record';
import { startSandbox, type Sandbox } from '#sandbox';

/** What the documents say exists, and what exists is in the documents. */

const root = join(import.meta.dirname, '..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

const tracked = execFileSync('git', ['ls-files'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((path) => path !== '' && existsSync(join(root, path)));
const documents = tracked.filter((path) => path.endsWith('.md') && !path.startsWith('libs/'));
const product = tracked.filter(
  (path) => /^(?:apps|libs|migrations)\/.*\.ts$/u.test(path) && !/\.spec\.ts$|\/bench\/|\/testing\//u.test(path),
);

const documentation = documents.map(read).join('\n');
const source = product.map(read).join('\n');
const manifest = JSON.parse(read('package.json')) as { readonly scripts: { readonly [name: string]: string } };

const found = (text: string, expression: RegExp): readonly string[] =>
  [...new Set([...text.matchAll(expression)].map((match) => match[1] ?? match[0]))].sort();

const section = (document: string, heading: string): string => {
  const from = document.indexOf(`\n## ${heading}\n`);
  if (from < 0) throw new Error(`no section ${heading}`);
  const end = document.indexOf('\n## ', from + 1);
  return document.slice(from, end < 0 ? undefined : end);
};

describe('settings', () => {
  const table = found(section(read('docs/operations.md'), 'Settings'), /^\| `([A-Z_]+)`/gmu);

  it('are in the table of operations.md, all of them and no others', () => {
    const named = found(source, /'(HOOKLEDGER_[A-Z_]+|DATABASE_URL|HOST|PORT)'/gu);
    const direct = found(source, /\benv\.([A-Z_]+)\b/gu).filter((name) => name !== 'PATH');
    expect(table).toEqual([...new Set([...named, ...direct])].sort());
  });

  it('exist wherever a document or the compose file names one', () => {
    const mentioned = found(
      `${documentation}\n${read('docker-compose.yml')}\n${read('Dockerfile')}`,
      /\b(HOOKLEDGER_[A-Z_]+)\b/gu,
    );
    expect(mentioned.filter((name) => !table.includes(name))).toEqual([]);
  });
});

describe('routes', () => {
  const described = JSON.parse(read('openapi.json')) as { readonly paths: { readonly [path: string]: object } };
  const routes = Object.entries(described.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const mentioned = found(documentation, /\b((?:GET|POST|PUT|PATCH|DELETE) \/[\w/{}.-]+)/gu);

  it('are in api.md, all of them', () => {
    const guide = read('docs/api.md');
    expect(routes.filter((route) => !guide.includes(`\`${route}\``))).toEqual([]);
  });

  it('exist wherever a document names one', () => {
    expect(mentioned.filter((route) => !routes.includes(route))).toEqual([]);
  });
});

describe('hooks', () => {
  const entries = dialectOf('middleware')?.entries ?? new Map<string, never>();
  const rows = [
    ...section(read('docs/hooks.md'), 'The fourteen hooks').matchAll(
      /^\| `(\w+)` +\| ([^|]*)\| ([^|]*)\| ([^|]*)\|$/gmu,
    ),
  ];

  it('are in the table of hooks.md with their fields, in the order of the catalogue', () => {
    const told = rows.map(([, name = '', , fields = '']) => ({ name, fields: found(fields, /`(\w+)`/gu) }));
    const known = [...entries.values()].map(({ name, mutableFields }) => ({ name, fields: [...mutableFields].sort() }));
    expect(told).toEqual(known);
  });

  it('say there that they have no veto exactly where they have none', () => {
    const told = rows.map(([, name = '', , , veto = '']) => ({ name, veto: veto.trim() !== 'no veto' }));
    expect(told).toEqual([...entries.values()].map(({ name, cancellable }) => ({ name, veto: cancellable })));
  });

  it('take the context that hooks.md gives, and nothing less or more', () => {
    const dialect = dialectOf('middleware');
    for (const [, hook = '', keys = ''] of rows) {
      const names = keys.split(',').map((key) => key.trim());
      const required = names.filter((name) => name !== 'intent').map((name) => name.replace('?', ''));
      const faults = (context: { readonly [key: string]: null }): readonly string[] => {
        const opening = dialect?.open(hook, { context });
        return opening?.kind === 'refused' ? opening.faults.map(({ pointer }) => pointer) : [];
      };
      const missing = faults({})
        .map((pointer) => pointer.split('/').at(-1))
        .sort();
      expect([hook, missing]).toEqual([hook, [...required].sort()]);
      // Null is a fault exactly where the table has no question mark.
      const nulls = Object.fromEntries(required.map((name) => [name, null]));
      const refused = faults(nulls)
        .map((pointer) => pointer.split('/').at(-1))
        .sort();
      expect([hook, refused]).toEqual([hook, names.filter((name) => !name.endsWith('?') && name !== 'intent').sort()]);
    }
  });
});

describe('codes', () => {
  const codes = found(section(read('docs/hooks.md'), 'Warnings'), /`([a-z]+_[a-z_]+)`/gu).filter(
    (code) => code !== 'field_type',
  );
  const dialect = product
    .filter((path) => path.startsWith('libs/dialects/src/middleware/') || path.startsWith('libs/firing/src/'))
    .map(read)
    .join('\n');

  it('of warnings in hooks.md exist in the dialect', () => {
    expect(codes.filter((code) => !dialect.includes(code))).toEqual([]);
  });

  it('of warnings in the dialect are in hooks.md', () => {
    // The one of these words that is a detail of another code.
    const detail = 'cancel_not_vetoable';
    const known = found(
      dialect,
      /['"`]((?:handler|cancel)_[a-z_]+|ssh_timeout_clamped|unknown_key|unknown_hook|readonly_field)['"`]/gu,
    );
    expect(known.filter((code) => !codes.includes(code) && code !== detail)).toEqual([]);
  });

  it('of problems in api.md exist in the program', () => {
    const problems = found(read('docs/api.md'), /`([a-z]+_[a-z_]+)`/gu);
    expect(problems).toContain('stale_etag');
    expect(problems.filter((code) => !source.includes(`'${code}'`))).toEqual([]);
  });

  it('of events exist in the record', () => {
    // `host.log` is a member, `plugin.json` a file.
    const groups = [...new Set(eventTypes.map((type) => type.split('.')[0] ?? ''))].filter((group) => group !== 'host');
    const mentioned = found(documentation, new RegExp(`\`((?:${groups.join('|')})\\.(?!json)[a-z_]+)\``, 'gu'));
    expect(mentioned.filter((type) => !(eventTypes as readonly string[]).includes(type))).toEqual([]);
  });
});

describe('metrics', () => {
  it('are in operations.md, all of them and no others', () => {
    const known = found(source, /'(hookledger_[a-z]+_[a-z_]+)'/gu).filter((name) => name !== 'hookledger_app');
    expect(found(section(read('docs/operations.md'), 'Metrics'), /`(hookledger_[a-z_]+)`/gu)).toEqual(known);
  });
});

describe('npm scripts', () => {
  const mentioned = found(documentation, /\bnpm (?:run )?([a-z][a-z:-]*)/gu).filter(
    (name) => name in manifest.scripts || !['ci', 'puts', 'run', 'and', 'prune', 'install', 'names'].includes(name),
  );
  const words = section(read('README.md'), 'Developing');

  it('exist wherever a document names one', () => {
    const named = found(documentation, /`npm run ([a-z][a-z:-]*)/gu).concat(
      found(documentation, /^npm run ([a-z][a-z:-]*)/gmu),
    );
    expect(named.filter((name) => !(name in manifest.scripts))).toEqual([]);
    expect(mentioned).toContain('start');
  });

  it('that check is made of are named in the README', () => {
    const parts = found(manifest.scripts.check ?? '', /npm (?:run )?([a-z][a-z:-]*)/gu);
    expect(parts.length).toBeGreaterThan(4);
    expect(parts.filter((part) => !words.includes(`\`${part}\``) && !words.includes(`\`npm ${part}\``))).toEqual([]);
  });

  it('of the README are what CI runs', () => {
    const commands = found(words, /^(npm [^\n]+)$/gmu).map((command) => command.split(' -- ')[0] ?? '');
    const ci = read('.ci/run');
    expect(commands).toEqual(['npm ci', 'npm run check', 'npm run conformance', 'npm run test:kafka']);
    for (const command of commands) expect(ci).toMatch(new RegExp(`^\\s*(?:if ! )?${command}\\b`, 'mu'));
  });
});

describe('links', () => {
  const links = documents.flatMap((path) =>
    [...read(path).matchAll(/\]\((?!https?:)([^)\s]+)\)/gu)].map((match) => [path, match[1] ?? ''] as const),
  );

  it.each(links)('%s: %s resolves', (path, target) => {
    const [file = '', anchor] = target.split('#');
    const absolute = file === '' ? join(root, path) : join(root, dirname(path), file);
    expect(existsSync(absolute)).toBe(true);
    if (anchor === undefined) return;
    const headings = found(readFileSync(absolute, 'utf8'), /^#+ (.+)$/gmu);
    const anchors = headings.map((heading) =>
      heading
        .toLowerCase()
        .replace(/[^\w\- ]/gu, '')
        .replaceAll(' ', '-'),
    );
    expect(anchors).toContain(anchor);
  });

  it('lead from the list of decisions to every decision', () => {
    const list = read('docs/adr/README.md');
    const pages = readdirSync(join(root, 'docs/adr')).filter((name) => name !== 'README.md');
    expect(pages.filter((name) => !list.includes(`(${name})`))).toEqual([]);
  });

  it('lead from the README to every page', () => {
    const pages = documents.filter((path) => /^docs\/[^/]+\.md$/u.test(path));
    expect(pages.filter((path) => !read('README.md').includes(`(${path})`))).toEqual([]);
  });
});

describe('the layout in architecture.md', () => {
  it('names every library and program, and every edge of the import table', () => {
    const page = read('docs/architecture.md');
    const folders = found(tracked.join('\n'), /^((?:libs|apps)\/[^/]+)\//gmu);
    expect(folders.filter((folder) => !page.includes(`\`${folder}\``))).toEqual([]);
    const table = section(page, 'Who may import whom');
    const rules = read('.dependency-cruiser.cjs');
    for (const [, names = '', targets = ''] of table.matchAll(/^\| ((?:`[a-z-]+`(?:, )?)+) +\| ([^|]+)\|$/gmu)) {
      for (const name of found(names, /`([a-z-]+)`/gu)) {
        const allowed = new RegExp(`^ +'?${name}'?: \\[([^\\]]*)\\],$`, 'mu').exec(rules)?.[1] ?? 'no rule';
        expect([name, found(allowed, /'([a-z-]+)'/gu)]).toEqual([name, found(targets, /`([a-z-]+)`/gu)]);
      }
    }
  });
});

describe('code in hooks.md', () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await startSandbox({});
  });
  afterAll(() => sandbox.close());

  const blocks = [...read('docs/hooks.md').matchAll(/^```(js|ts)\n([\s\S]*?)^```$/gmu)].map(
    (match) => [match[1] ?? '', match[2] ?? ''] as const,
  );

  it.each(blocks)('loads without a warning (%s, %j)', async (language, text) => {
    const dialect = dialectOf('middleware');
    if (dialect === undefined) throw new Error('there is no middleware dialect');
    const compiled = await compile({ source: text }, language === 'ts' ? 'typescript' : 'javascript');
    if (compiled.kind !== 'compiled') throw new Error(compiled.message);
    const loaded = await sandbox.load(
      {
        account: 'docs',
        pluginId: 'example',
        digest: text,
        code: compiled.code,
        fileName: 'example.js',
        guest: dialect.guest,
        setup: dialect.setup({ permissions: [], config: {} }),
        isolation: 'fresh',
      },
      5_000,
    );
    if (loaded.kind !== 'loaded') throw new Error(loaded.message);
    const report = dialect.readReport(loaded.report);
    expect(report.warnings).toEqual([]);
    expect(report.hooks.length).toBeGreaterThan(0);
  });
});

describe('what is shipped', () => {
  it('holds no path of a machine and no trailing white space in its documents', () => {
    const odd = documents.filter((path) =>
      /(?:^|[^\w.])(?:\/work\/|\/root\/(?!\.ssh)|\/home\/[a-z]+\/[a-z])/mu.test(read(path)),
    );
    expect(odd.map((path) => relative('.', path))).toEqual([]);
  });
});
