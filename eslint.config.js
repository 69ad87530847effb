import eslint from '@eslint/js';
import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

/** A plugin is a script in a realm of its own: no modules, and only what the guest program puts there. */
const pluginGlobals = { host: 'readonly', globalThis: 'readonly' };

const nodeGlobals = {
  process: 'readonly',
  console: 'readonly',
  Buffer: 'readonly',
  URL: 'readonly',
  fetch: 'readonly',
  setTimeout: 'readonly',
  setImmediate: 'readonly',
  performance: 'readonly',
};

export default defineConfig(
  globalIgnores(['dist/', 'coverage/', '.hookledger/']),
  eslint.configs.recommended,
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      // Flags the options literal of Nest's modules, which are class instances only to the type checker.
      '@typescript-eslint/no-unsafe-class-instance-assignment': 'off',
      // A Nest module is a class that only carries its decorator.
      '@typescript-eslint/no-extraneous-class': ['error', { allowWithDecorator: true }],
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'separate-type-imports' }],
      // `_` says: this place in the signature is someone else's.
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', caughtErrorsIgnorePattern: '^_', ignoreRestSiblings: true },
      ],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      // Positions and counts come as bigint and go out as text; `void promise` says that nobody waits on purpose.
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      eqeqeq: ['error', 'always'],
      'no-console': 'error',
      'no-restricted-exports': [
        'error',
        {
          restrictDefaultExports: {
            direct: true,
            named: true,
            defaultFrom: true,
            namedFrom: true,
            namespaceFrom: true,
          },
        },
      ],
      'no-restricted-syntax': [
        'error',
        { selector: 'TSEnumDeclaration', message: 'A union of literals says the same and is plain data (style.md).' },
        { selector: 'ExportAllDeclaration', message: 'Name what a library gives (style.md).' },
        { selector: "Identifier[name='forwardRef']", message: 'A cycle is mended, not hidden (style.md).' },
      ],
    },
  },
  {
    // JSON is recursive, which neither Record<> nor an interface can say; the same spelling serves the rest.
    files: ['**/*.ts'],
    rules: { '@typescript-eslint/consistent-indexed-object-style': 'off' },
  },
  {
    files: ['libs/record/src/json.ts', 'libs/sdk/src/json.ts'],
    rules: { '@typescript-eslint/consistent-type-definitions': 'off' },
  },
  {
    // Programs talk on stdout; that is their job.
    files: ['apps/cli/**/*.ts', 'bench/**/*.ts', 'libs/*/bench/**/*.ts'],
    rules: { 'no-console': 'off' },
  },
  {
    files: ['**/*.js', '**/*.mjs', '**/*.cjs'],
    extends: [tseslint.configs.disableTypeChecked],
    languageOptions: { globals: nodeGlobals },
    rules: { eqeqeq: ['error', 'always'] },
  },
  {
    files: ['**/*.cjs'],
    languageOptions: {
      sourceType: 'commonjs',
      globals: { module: 'writable', require: 'readonly', __dirname: 'readonly' },
    },
  },
  { files: ['examples/plugins/*/*.js'], languageOptions: { sourceType: 'script', globals: pluginGlobals } },
);
