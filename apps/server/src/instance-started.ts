import { asData } from '#record';
import type { Sandbox } from '#sandbox';
import type { AppServices } from './app.module.js';
import { systemAccount } from './control/accounts/directory-state.js';

/** Records in the log of `system` that a program began to work on it: which, in what roles, how well contained. */
export const recordStart = async (
  { store, config, sandbox, instance }: AppServices,
  version: string,
): Promise<void> => {
  const { state, missing } = (sandbox as Sandbox).health();
  const data = {
    instance,
    version,
    roles: [...config.roles],
    node: process.versions.node,
    platform: `${process.platform}-${process.arch}`,
    sandbox: { state, missing },
  };
  await store.append({
    account: systemAccount,
    writes: [
      {
        stream: `instance/${instance}`,
        expectedVersion: 0,
        events: [{ type: 'instance.started', actor: { kind: 'system', id: instance }, data: asData(data) }],
      },
    ],
  });
};
