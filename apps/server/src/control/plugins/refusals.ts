import { Problem } from '#platform';
import type { PluginFault, Refusal } from '#plugins';

/** A refusal of the decider as the API says it. */
export const problemOfRefusal = (refusal: Refusal, id: string): Problem => {
  switch (refusal.refusal) {
    case 'exists':
      return new Problem(
        409,
        'plugin_exists',
        `A plugin ${JSON.stringify(id)} is installed. Change it, or give it a new version.`,
      );
    case 'not_installed':
      return noPlugin(id);
    case 'unknown_revision':
      return new Problem(422, 'unknown_revision', `This plugin never had a revision ${String(refusal.revision)}.`, [
        { pointer: '/revision', reason: 'is not a revision of this plugin' },
      ]);
    case 'other_dialect':
      return new Problem(422, 'other_dialect', `Revision ${String(refusal.revision)} was of another dialect.`, [
        { pointer: '/revision', reason: 'is of another dialect: uninstall the plugin and install that one' },
      ]);
    case 'faulty':
      return faultyPlugin(refusal.faults);
  }
};

/** 404 for an id that is not installed. */
export const noPlugin = (id: string): Problem =>
  new Problem(404, 'unknown_plugin', `No plugin ${JSON.stringify(id)} is installed.`);

/** 422 with the faulty fields. */
export const faultyPlugin = (faults: readonly PluginFault[], code = 'bad_fields'): Problem =>
  new Problem(422, code, 'The request does not fit.', faults);
