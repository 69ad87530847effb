/**
 * Five handlers of the kinds that plugins are made of: veto, rewrite, redaction, a look, and one that waits for
 * `host.log`. Setup `{"log":"call"}` has the API process answer it, a full round trip; `{"log":"emit"}` does not wait.
 */
export const benchHandlers: readonly string[] = [
  `const bad = [/\\brm\\s+-[a-z]*r[a-z]*f/i, /\\bmkfs\\b/, /\\bdd\\s+if=/, />\\s*\\/dev\\/sd/];
on.it = async (context) => {
  for (const pattern of bad) if (pattern.test(context.command)) throw new Error('no');
  return {};
};`,
  `on.it = async (context) => ({ command: context.command.replace(/\\bapt(-get)? install\\b(?! -y)/, 'apt-get install -y') });`,
  `const secrets = [/AKIA[0-9A-Z]{16}/g, /ghp_[0-9A-Za-z]{36}/g, /\\b\\d{4}[ -]?\\d{4}[ -]?\\d{4}[ -]?\\d{4}\\b/g];
on.it = async (context) => {
  let command = context.command;
  for (const pattern of secrets) command = command.replace(pattern, '[gone]');
  return { command };
};`,
  `on.it = async () => ({});`,
  `on.it = async (context) => {
  await host.log('info', 'command of ' + context.command.length);
  return {};
};`,
];

export const benchInput = JSON.stringify({
  sessionId: '7342918273645182977',
  agentId: '7342918273645180001',
  sshHostId: '7342918273645150001',
  hostDisplayName: 'web-1',
  kind: 'command',
  command:
    'apt-get install ripgrep && export KEY=AKIAABCDEFGHIJKLMNOP && rg -n "needle" /srv/app --glob "*.ts" | head -20',
  path: null,
  content: null,
});

/** The smallest guest program that hands a handler its own copy of the context and reads a patch. */
export const benchGuest = String.raw`(function (kit, setup) {
  const root = globalThis;
  const { parse, stringify } = kit.JSON;
  const { keys, defineProperty } = kit.Object;
  const own = (value) => ({ __proto__: null, value, writable: true, enumerable: true, configurable: true });
  root.on = {};
  let current;
  root.host = kit.Object.freeze({
    log: (...args) => {
      if (setup.log === 'call') return current.call('log', args);
      current.emit('log', args);
      return kit.resolve(undefined);
    },
  });
  let handler;
  let lastArgs = '';
  return {
    report: () => '{}',
    call(name, input, patches, args, run) {
      handler ??= root.on[name];
      current = run;
      const context = parse(input);
      if (patches !== '[]') {
        const all = parse(patches);
        for (let i = 0; i < all.length; i++) {
          const names = keys(all[i]);
          for (let k = 0; k < names.length; k++) defineProperty(context, names[k], own(all[i][names[k]]));
        }
      }
      if (args !== lastArgs) {
        parse(args);
        lastArgs = args;
      }
      const before = context.command;
      kit.then(
        handler(context, {}),
        (result) => {
          const patch = { __proto__: null };
          let changed = false;
          const names = keys(result);
          for (let i = 0; i < names.length; i++) {
            const value = result[names[i]];
            if (value === undefined) continue;
            patch[names[i]] = value;
            if (value !== before) changed = true;
          }
          run.done(changed ? '~' + stringify(patch) + '\n' : '=');
        },
        (error) => run.done('!' + kit.text(error)),
      );
    },
  };
})`;
