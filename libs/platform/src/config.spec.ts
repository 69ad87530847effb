import { describe, expect, it } from '@jest/globals';
import { readConfig, StartFailure } from './config.js';

const kafka = { HOOKLEDGER_KAFKA_BROKERS: 'k1:9092' };

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
    [{ HOOKLEDGER_KAFKA_BROKERS: 'k1:9092,k2' }, 'entry 2'],
    [{ HOOKLEDGER_PROJECT_FROM: 'mysql' }, 'HOOKLEDGER_PROJECT_FROM'],
    [{ HOOKLEDGER_PROJECT_FROM: 'kafka' }, 'HOOKLEDGER_KAFKA_BROKERS'],
    [{ ...kafka, HOOKLEDGER_KAFKA_PARTITIONS: '0' }, 'HOOKLEDGER_KAFKA_PARTITIONS'],
    [{ ...kafka, HOOKLEDGER_KAFKA_TOPIC_PREFIX: 'a/b' }, 'HOOKLEDGER_KAFKA_TOPIC_PREFIX'],
    [{ ...kafka, HOOKLEDGER_KAFKA_SSL: 'false', HOOKLEDGER_KAFKA_SSL_CA: 'ca.pem' }, 'HOOKLEDGER_KAFKA_SSL'],
    [{ ...kafka, HOOKLEDGER_KAFKA_SSL_CERT: 'a.pem' }, 'HOOKLEDGER_KAFKA_SSL_KEY'],
    [{ ...kafka, HOOKLEDGER_KAFKA_SASL_MECHANISM: 'gssapi' }, 'HOOKLEDGER_KAFKA_SASL_MECHANISM'],
    [{ ...kafka, HOOKLEDGER_KAFKA_SASL_MECHANISM: 'plain' }, 'HOOKLEDGER_KAFKA_SASL_USERNAME'],
    [{ ...kafka, HOOKLEDGER_KAFKA_SASL_PASSWORD: 'secret' }, 'HOOKLEDGER_KAFKA_SASL_MECHANISM'],
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
    expect(refuse({ HOOKLEDGER_KAFKA_BROKERS: 'u:hunter2@k1:9092' })).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('hunter2') }),
    );
    expect(refuse({ ...kafka, HOOKLEDGER_KAFKA_SASL_PASSWORD: 'hunter2' })).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('hunter2') }),
    );
  });

  it('has Kafka where brokers are named, and encrypts where an authority is', () => {
    expect(readConfig({}, '/srv/app').kafka).toBeNull();
    const env = { HOOKLEDGER_KAFKA_BROKERS: 'k1:9092, k2:9092', HOOKLEDGER_KAFKA_SSL_CA: 'ca.pem' };
    expect(readConfig(env, '/srv/app').kafka).toEqual({
      brokers: ['k1:9092', 'k2:9092'],
      tls: { ca: '/srv/app/ca.pem', cert: null, key: null },
      sasl: null,
      topicPrefix: 'hookledger',
      partitions: 12,
      replicas: null,
      accountTopics: [],
      leaseMs: 10_000,
    });
  });
});
