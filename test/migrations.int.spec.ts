import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { migrations } from '#migrations';
import type { QueryRunner } from 'typeorm';

/** SHA-256 of the statements of every migration that was released. A new one is added here; none is ever changed. */
const released: { readonly [name: string]: string } = {
  CreateLog1764500000000: 'a25e386af1cade0ab52079f707027bd9ee68f1bfd138e680c649d8d6495885e2',
  CreateAppend1764500000001: '164551e7e055b81734c520a6895083cb30e6fb50d47be936c74fc1bc256126ef',
  CreateAccounts1764500000020: '8ee31bc6bd4e58e236d8e8e5b2ef60248e8186481f62675d52019a8e9e69582e',
  CreateProof1764500000030: '943ccc2bd17c192f777abe8d3b726956fd0e05fb5d73d324d1047133191071a1',
  CreatePurge1764500000040: '6c99196505a6ee8f1b778e221d1306112b9e10e1ad82ddb8ea6750d2051bbe18',
  CreateMasterInForce1764500000050: '83fa5e8df12f37dc0e737d033e35428f39e87ac47ea828156bd5fec022686338',
  CreateCronWatch1764500000060: '20f65c6dde5c068f8fc8b38db5cf024cd3596165e94aaa54664a0a0d95623fc3',
  CreateExports1764500000070: 'ba4d58ca9a10ff64fc3615aa94184af3ccb78f1ba61517c9f86ee6243ac1f1cf',
  CreateRelay1764500000080: 'af1f94cb2f2048840579c7f568b683ab2ba413420c454b45b83820f705564032',
  CreateApprovalWatch1764500000090: '86ab33cc83200d6cce3b36502b3fad86733627d7cddd30fa821b5c7a91077409',
  CreateSessionCleanup1764500000100: 'a1f4e13cdc30091e8645b43f892807c8bb2ef5d31074fd2b85265350917c4307',
  CreateHostLink1764500000120: 'f53745e7282077edba130380ed982dcc722002116e2dcc64378081487ef93030',
};

const statementsOf = async (migration: (typeof migrations)[number]): Promise<string> => {
  const statements: string[] = [];
  const runner = { query: (text: string) => Promise.resolve(void statements.push(text)) } as unknown as QueryRunner;
  await new migration().up(runner);
  return statements.join('\n;\n');
};

describe('a migration', () => {
  it.each(migrations.map((migration) => [migration.name, migration] as const))(
    'says what it said when it was released: %s',
    async (name, migration) => {
      const digest = createHash('sha256')
        .update(await statementsOf(migration))
        .digest('hex');
      // A database that ran it would never see the change: write another migration instead.
      expect([name, digest]).toEqual([name, released[name]]);
    },
  );

  it('is never taken away', () => {
    expect(Object.keys(released)).toEqual(migrations.map(({ name }) => name));
  });
});
