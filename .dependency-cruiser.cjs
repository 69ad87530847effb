'use strict';

/**
 * Who may import whom (docs/architecture.md). A library that is not in this table may be imported by nobody and may
 * import nobody: adding one means deciding its place here. `hooks`, `record` and `sandbox` stand on nothing of ours.
 */
const mayImport = {
  hooks: [],
  record: [],
  sandbox: [],
  sdk: [],
  dialects: ['hooks', 'record'],
  'event-store': ['record', 'proof'],
  proof: ['record'],
  kafka: ['record', 'event-store'],
  keeping: ['record'],
  lifecycles: ['record'],
  sealing: ['record', 'event-store'],
  plugins: ['record', 'event-store'],
  approvals: ['record'],
  audit: ['record', 'event-store', 'sealing'],
  firing: ['hooks', 'dialects', 'sandbox', 'record', 'event-store', 'sealing', 'plugins'],
  platform: ['record', 'event-store', 'sealing'],
};

const names = Object.keys(mayImport);
const spec = '\\.spec\\.ts$';
// Suites and stand-ins that the specs of several libraries share.
const testParts = ['/testing/', '/contract\\.ts$'];
const benches = ['^bench/', '^libs/[^/]+/bench/'];
const npm = (...packages) => `node_modules/(?:@types/)?(?:${packages.join('|')})/`;

const matrix = names.map((name) => ({
  name: `libs-${name}`,
  comment: `libs/${name} may import ${mayImport[name].map((lib) => `libs/${lib}`).join(', ') || 'no library'} only.`,
  severity: 'error',
  from: { path: `^libs/${name}/`, pathNot: benches },
  to: { path: '^libs/', pathNot: `^libs/(?:${[name, ...mayImport[name]].join('|')})/` },
}));

const rules = [
  {
    name: 'libs-have-a-place',
    comment: 'A library stands in the table of this file, or it imports nothing of ours.',
    from: { path: '^libs/', pathNot: `^libs/(?:${names.join('|')})/` },
    to: { path: '^(?:apps|libs|migrations)/' },
  },
  {
    name: 'libs-never-import-apps',
    comment: 'Programs are made of libraries, not the other way round.',
    from: { path: '^(?:libs|migrations)/' },
    to: { path: '^apps/' },
  },
  {
    name: 'apps-never-import-apps',
    comment: 'What two programs share is a library.',
    from: { path: '^apps/([^/]+)/' },
    to: { path: '^apps/', pathNot: '^apps/$1/' },
  },
  {
    name: 'libs-entered-by-index-from-libs',
    comment: 'A library is entered through its index.ts (`#name`) only.',
    from: { path: '^libs/([^/]+)/' },
    to: { path: '^libs/', pathNot: ['^libs/$1/', '^libs/[^/]+/src/index\\.ts$'] },
  },
  {
    name: 'libs-entered-by-index',
    comment: 'A library is entered through its index.ts (`#name`) only.',
    from: { path: '^(?:apps|migrations|test|examples|bench|scripts)/' },
    // A library's own measures are called by the measures of the whole; the client has a second entry, for Node.
    to: {
      path: '^libs/',
      pathNot: ['^libs/[^/]+/src/index\\.ts$', '^libs/sdk/src/node/index\\.ts$', '^libs/[^/]+/bench/'],
    },
  },
  {
    name: 'sdk-stands-alone',
    comment: 'The client runs wherever there is fetch: no package, and Node only behind its entry for Node.',
    from: { path: '^libs/sdk/src/', pathNot: [spec, '^libs/sdk/src/node/'] },
    to: { dependencyTypes: ['npm', 'npm-dev', 'npm-optional', 'core'] },
  },
  {
    name: 'sdk-for-node-without-packages',
    comment: 'A client that installs nothing cannot break by what it installs.',
    from: { path: '^libs/sdk/src/node/', pathNot: spec },
    to: { dependencyTypes: ['npm', 'npm-dev', 'npm-optional'] },
  },
  {
    name: 'nest-at-the-edge',
    comment: 'Nest composes the programs; the libraries under them do not know it.',
    from: { path: '^(?:libs|migrations)/', pathNot: '^libs/platform/' },
    to: { path: npm('@nestjs/[^/]+') },
  },
  {
    name: 'postgres-behind-the-store',
    comment: 'Read models and keys reach the database by a Sql handle from event-store, never by a driver.',
    from: { path: '^(?:apps|libs)/', pathNot: '^libs/(?:event-store/src/postgres|platform)/' },
    to: { path: npm('pg', 'pg-[^/]+', 'typeorm', '@nestjs/typeorm') },
  },
  {
    name: 'kafka-behind-the-port',
    comment: 'kafkajs stands behind a port (#kafka): nobody else knows which client there is.',
    from: { pathNot: '^libs/kafka/src/kafkajs-[^/]+\\.ts$' },
    to: { path: npm('kafkajs') },
  },
  {
    name: 'isolates-in-the-sandbox',
    comment: 'Plugin code runs in hardened children of the sandbox and nowhere else.',
    from: { pathNot: '^libs/sandbox/' },
    to: { path: npm('isolated-vm') },
  },
  {
    name: 'pure-libs-do-no-io',
    comment: 'These decide; they read no file, open no socket, start no process.',
    from: { path: '^libs/(?:hooks|record|dialects|plugins|proof|approvals|lifecycles|keeping)/src/', pathNot: spec },
    // `vm` has the one clock that ends a regular expression; it is no boundary and holds nothing of a plugin's.
    to: { dependencyTypes: ['core'], pathNot: '^(?:node:)?(?:crypto|util|buffer|vm)$' },
  },
  {
    name: 'migrations-stand-alone',
    comment: 'A migration is frozen on the day it is written; code that it imported would change it afterwards.',
    from: { path: '^migrations/', pathNot: spec },
    to: { path: '^(?:apps|libs)/' },
  },
  {
    name: 'plugins-stand-alone',
    comment: 'A plugin runs in a realm without modules: its imports resolve among its own files only.',
    from: { path: '^examples/plugins/([^/]+)/', pathNot: spec },
    to: { pathNot: '^examples/plugins/$1/' },
  },
  {
    name: 'product-without-dev-dependencies',
    comment: '`npm ci --omit=dev` must be enough to start.',
    from: { path: '^(?:apps|libs|migrations)/', pathNot: [spec, ...benches, ...testParts] },
    to: { dependencyTypes: ['npm-dev'], dependencyTypesNot: ['type-only'] },
  },
  {
    name: 'product-without-test-parts',
    comment: 'What serves tests is not built into the product.',
    from: { path: '^(?:apps|libs|migrations)/', pathNot: [spec, ...benches] },
    to: { path: '^(?:test|bench)/' },
  },
  {
    name: 'specs-are-leaves',
    comment: 'What two specs share is a file of its own.',
    from: {},
    to: { path: spec },
  },
  {
    name: 'no-cycles',
    comment: 'Two files that need each other to run are one file, or three. Types alone may meet in a circle.',
    from: {},
    to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
  },
  {
    name: 'everything-resolves',
    comment: 'Without this the other rules would pass on what they cannot see.',
    from: {},
    to: { couldNotResolve: true },
  },
  {
    name: 'never-the-build',
    comment: 'An import that ends in dist is one whose `hookledger-source` condition was lost.',
    from: {},
    to: { path: '^dist/' },
  },
].map((rule) => ({ severity: 'error', ...rule }));

module.exports = {
  forbidden: [...matrix, ...rules],
  options: {
    doNotFollow: { path: ['node_modules', '^dist/'] },
    exclude: { path: '^(?:coverage|\\.hookledger)/' },
    tsPreCompilationDeps: true,
    combinedDependencies: false,
    detectJSDocImports: true,
    enhancedResolveOptions: {
      // Ours first: a library is its source here, not its build.
      conditionNames: ['hookledger-source', 'import', 'require', 'node', 'default', 'types'],
      exportsFields: ['exports'],
      extensions: ['.ts', '.js', '.mjs', '.cjs', '.d.ts', '.json'],
    },
  },
};
