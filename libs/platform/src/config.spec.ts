import { describe, expect, it } from '@jest/globals';
import { readConfig, StartFailure } from './config.js';

describe('the configuration', () => {
  it('has a default for everything', () => {
    expect(readConfig({}, '/srv/app')).toMatchObject({
      host: '127.0.0.1',
      port: 3000,
      roles: new Set(['gateway', 'control', 'worker']),
      dataDir: '/srv/app/.hookledger',
      databaseUrl: null,
      operatorKey: null,
      masterKey: null,
      masterKeyNext: null,
    });
  });

  it.each([
    [{ PORT: '70000' }, 'PORT'],
    [{ PORT: 'http' }, 'PORT'],
    [{ HOOKLEDGER_ROLES: 'gateway,boss' }, 'HOOKLEDGER_ROLES'],
    [{ DATABASE_URL: 'mysql://x' }, 'DATABASE_URL'],
    [{ HOOKLEDGER_OPERATOR_KEY: 'with blanks in it' }, 'HOOKLEDGER_OPERATOR_KEY'],
    [{ HOOKLEDGER_LOG_LEVEL: 'loud' }, 'HOOKLEDGER_LOG_LEVEL'],
    [{ HOOKLEDGER_SANDBOX_JIT: 'maybe' }, 'HOOKLEDGER_SANDBOX_JIT'],
    [{ HOOKLEDGER_DB_POOL: '0' }, 'HOOKLEDGER_DB_POOL'],
  ])('is refused with the name of the setting that is wrong: %j', (env, name) => {
    expect(() => readConfig(env, '/')).toThrow(StartFailure);
    expect(() => readConfig(env, '/')).toThrow(name);
  });

  it('never repeats a secret that it refuses', () => {
    const refuse = (env: Record<string, string>) => () => readConfig(env, '/');
    expect(refuse({ DATABASE_URL: 'http://u:hunter2@h/d' })).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('hunter2') }),
    );
    expect(refuse({ HOOKLEDGER_OPERATOR_KEY: 'hunter2 and more' })).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('hunter2') }),
    );
  });
});
