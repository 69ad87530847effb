import type { MigrationInterface } from 'typeorm';
import { CreateLog1764500000000 } from './1764500000000-log.js';
import { CreateAppend1764500000001 } from './1764500000001-append.js';
import { CreateAccounts1764500000020 } from './1764500000020-accounts.js';
import { CreateProof1764500000030 } from './1764500000030-proof.js';
import { CreatePurge1764500000040 } from './1764500000040-purge.js';
import { CreateMasterInForce1764500000050 } from './1764500000050-master-in-force.js';
import { CreateCronWatch1764500000060 } from './1764500000060-cron-watch.js';
import { CreateExports1764500000070 } from './1764500000070-exports.js';
import { CreateRelay1764500000080 } from './1764500000080-relay.js';
import { CreateApprovalWatch1764500000090 } from './1764500000090-approval-watch.js';
import { CreateSessionCleanup1764500000100 } from './1764500000100-session-cleanup.js';
import { CreateHostLink1764500000120 } from './1764500000120-host-link.js';
import type { MigrateOptions } from './migrate.js';
import { migrateWith } from './migrate.js';

/** Every migration, oldest first, listed by hand: the compiler finds them and none runs by accident. */
export const migrations: readonly (new () => MigrationInterface)[] = [
  CreateLog1764500000000,
  CreateAppend1764500000001,
  CreateAccounts1764500000020,
  CreateProof1764500000030,
  CreatePurge1764500000040,
  CreateMasterInForce1764500000050,
  CreateCronWatch1764500000060,
  CreateExports1764500000070,
  CreateRelay1764500000080,
  CreateApprovalWatch1764500000090,
  CreateSessionCleanup1764500000100,
  CreateHostLink1764500000120,
];

/**
 * Brings the database to this program's tables. Any number of replicas may start on an empty database at once: they
 * take turns. Throws what the database throws.
 */
export const migrate = (connectionString: string, options: MigrateOptions = {}): Promise<void> =>
  migrateWith(migrations, connectionString, options);

export type { MigrateOptions } from './migrate.js';
