import type { JsonObject } from '#record';
import { registrationsIn } from './load-report.js';

/** A session extension in force: a plugin's own, by the name under which its realm knows it. */
export interface OwnExtension {
  readonly pluginId: string;
  readonly namespace: string;
  readonly description: string;
  /** Null: its realm does not know it by a name, and it has neither projector nor cleanup. */
  readonly handler: string | null;
  readonly projects: boolean;
  readonly cleans: boolean;
  readonly slotKey: string | null;
}

/** A runtime lifecycle in force. */
export interface OwnLifecycle {
  readonly pluginId: string;
  readonly id: string;
  readonly handler: string;
}

/** A plugin with `LoadReport.registrations`. */
interface Registering {
  readonly id: string;
  readonly registrations: JsonObject;
}

/**
 * The session extensions of plugins, in load order. One whose slot another plugin has before it is none (openclaw.md
 * §15).
 */
export const extensionsOf = (plugins: readonly Registering[]): readonly OwnExtension[] => {
  const slots = new Set<string>();
  return plugins.flatMap(({ id, registrations }) => {
    const own = registrationsIn(registrations).extensions.map((claim): OwnExtension => {
      const { namespace, description, handler, project, cleanup, sessionEntrySlotKey } = claim;
      return {
        pluginId: id,
        namespace: namespace.trim(),
        description: description.trim(),
        handler: handler ?? null,
        projects: project === 'function',
        cleans: cleanup === 'function' || cleanup === 'async',
        slotKey: sessionEntrySlotKey?.trim() ?? null,
      };
    });
    const free = own.filter(({ slotKey }) => slotKey === null || !slots.has(slotKey));
    for (const { slotKey } of free) if (slotKey !== null) slots.add(slotKey);
    return free;
  });
};

/** The runtime lifecycles of plugins that have something to clean up, in load order. */
export const lifecyclesOf = (plugins: readonly Registering[]): readonly OwnLifecycle[] =>
  plugins.flatMap(({ id, registrations }) =>
    registrationsIn(registrations)
      .lifecycles.filter(({ cleanup }) => cleanup === 'function' || cleanup === 'async')
      .map((claim) => ({ pluginId: id, id: claim.id, handler: claim.handler })),
  );
