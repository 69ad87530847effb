import type { Connection } from './http-client.js';
import type { MeasuredServer } from './measured-server.js';
import { commandBody } from './plugins.js';

/** Calls that share connections. */
export interface PooledCalls {
  /** Fires once, on a connection that is free. */
  readonly call: () => Promise<void>;
  close(): void;
}

/** As many calls at once as there are connections; a call takes one that is free. */
export const pooled = async (server: MeasuredServer, account: string, size: number): Promise<PooledCalls> => {
  const free: Connection[] = [];
  for (let n = 0; n < size; n += 1) free.push(await server.firing(account, 'sshCommandSending'));
  return {
    call: async () => {
      const connection = free.pop();
      if (connection === undefined) throw new Error('more calls at once than connections');
      await connection.post(commandBody);
      free.push(connection);
    },
    close: () => {
      for (const connection of free) connection.close();
    },
  };
};
