/** Five plugins of the kinds that people write, none of which asks the host for anything. */
export const fivePlugins: readonly { readonly id: string; readonly source: string }[] = [
  {
    id: 'veto',
    source: `const bad = [/\\brm\\s+-[a-z]*r[a-z]*f/i, /\\bmkfs\\b/, /\\bdd\\s+if=/, />\\s*\\/dev\\/sd/];
globalThis.middleware.sshCommandSending = (context, tools) =>
  bad.some((pattern) => pattern.test(context.command)) ? tools.cancel('no') : {};`,
  },
  {
    id: 'rewrite',
    source: `globalThis.middleware.sshCommandSending = async (context) =>
  ({ command: context.command.replace(/\\bapt-get install\\b(?! -y)/, 'apt-get install -y') });`,
  },
  {
    id: 'redact',
    source: `const secrets = [/AKIA[0-9A-Z]{16}/g, /ghp_[0-9A-Za-z]{36}/g];
globalThis.middleware.sshCommandSending = async (context) => {
  let { command } = context;
  for (const pattern of secrets) command = command.replace(pattern, '[gone]');
  return { command };
};`,
  },
  { id: 'look', source: `globalThis.middleware.sshCommandSending = async () => ({});` },
  {
    id: 'paths',
    source: `globalThis.middleware.sshCommandSending = async ({ path }) => (path === null ? {} : { path: path.trim() });`,
  },
];

/** What a runtime sends before an agent's command goes out. */
export const commandBody = JSON.stringify({
  turnId: 'bench',
  context: {
    sessionId: '7342918273645182977',
    agentId: '7342918273645180001',
    sshHostId: '7342918273645150001',
    hostDisplayName: 'web-1',
    kind: 'command',
    command: 'apt-get install ripgrep && rg -n "needle" /srv/app --glob "*.ts" | head -20',
    path: null,
    content: null,
  },
});

/** The body that installs one of them. */
export const installation = ({ id, source }: { readonly id: string; readonly source: string }): object => ({
  id,
  name: id,
  version: '1.0.0',
  dialect: 'middleware',
  language: 'javascript',
  source,
  config: {},
});
