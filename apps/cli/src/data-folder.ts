import { resolve } from 'node:path';

type Environment = Readonly<Record<string, string | undefined>>;

/** The folder that a command speaks of, absolute: what the option says, else what the server would take. */
export const dataFolderOf = (option: string | undefined, env: Environment, cwd: string): string =>
  resolve(cwd, chosen(option) ?? chosen(env.HOOKLEDGER_DATA) ?? '.hookledger');

const chosen = (text: string | undefined): string | null => {
  const word = text?.trim();
  return word === undefined || word === '' ? null : word;
};
