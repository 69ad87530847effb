import { availableParallelism } from 'node:os';

const shared = {
  testEnvironment: 'node',
  testEnvironmentOptions: { customExportConditions: ['hookledger-source', 'node', 'node-addons'] },
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
  modulePathIgnorePatterns: ['<rootDir>/dist'],
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        module: { type: 'es6' },
        jsc: {
          target: 'es2022',
          keepClassNames: true,
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: false },
        },
      },
    ],
  },
};

/** One kind of tests: which files it has, in the settings that all share. */
export const suite = (displayName, testMatch, testPathIgnorePatterns = []) => ({
  ...shared,
  displayName,
  testMatch,
  testPathIgnorePatterns: ['/node_modules/', '/dist/', ...testPathIgnorePatterns],
});

/** unit: pure. int: real Postgres or real sandbox processes. e2e: the running program. For kafka: jest.kafka.config.js. */
export default {
  globalSetup: '<rootDir>/test/support/require-node-24.js',
  // Most suites wait for a database or a program: two at once take the time of one, also on two cores.
  maxWorkers: Math.max(2, availableParallelism() - 1),
  projects: [
    suite(
      'unit',
      ['<rootDir>/{apps,libs,examples}/**/*.spec.ts'],
      ['\\.int\\.spec\\.ts$', '\\.e2e\\.spec\\.ts$', '\\.kafka\\.spec\\.ts$'],
    ),
    suite('int', ['<rootDir>/{apps,libs,examples}/**/*.int.spec.ts', '<rootDir>/test/**/*.int.spec.ts']),
    suite('e2e', ['<rootDir>/test/**/*.e2e.spec.ts']),
  ],
};
