import { LogUnavailable } from '#event-store';
import type { Logger } from '#platform';
import { createLogger, errorFacts, readConfig, StartFailure } from '#platform';
import type { RunningServer } from './server.js';
import { startServer } from './server.js';

/** What a person reads goes to stdout; the log goes to stderr. */
const say = (text: string): void => void process.stdout.write(`${text}\n`);

/** Nothing of any account was read yet when a start fails, so the error may speak for itself. */
const fail = (error: unknown): never => {
  const words = wordsOf(error);
  process.stderr.write(`\nHookledger did not start.\n${words}\n`);
  process.exit(1);
};

const wordsOf = (error: unknown): string => {
  if (error instanceof StartFailure) return error.message;
  if (error instanceof LogUnavailable) {
    return `The database cannot be used: ${error.message}. Look whether it is reachable and was made by this version or an older one; \`npx hookledger doctor\` looks for you.`;
  }
  return String(error instanceof Error ? error.stack : error);
};

const main = async (): Promise<void> => {
  const [major = 0] = process.versions.node.split('.').map(Number);
  if (major < 24)
    throw new StartFailure(
      `Hookledger needs Node 24; this is ${process.versions.node}. Start it with npm start, which brings its own.`,
    );
  const config = readConfig(process.env, process.cwd());
  const logger = createLogger(config.logLevel);
  dieClearly(logger);
  const starting = startServer(config, logger);
  stopOnSignals(starting);
  const server = await starting;
  say(`Hookledger listens on ${server.url}`);
  if (server.operatorKey !== null) say(`Operator key (shown this once, keep it): ${server.operatorKey}`);
  else say('Operator key: as before (HOOKLEDGER_OPERATOR_KEY puts another one in its place)');
  say(`Its API is at ${server.url}/docs`);
};

/** One Ctrl-C comes twice, from the terminal and handed on by npm, so a second signal counts only after a while. */
const sameSignalMs = 2_000;

/** The first signal stops cleanly, also during the start; one that comes later does not wait. */
const stopOnSignals = (starting: Promise<RunningServer>): void => {
  let since: number | null = null;
  const stop = (): void => {
    if (since !== null && performance.now() - since > sameSignalMs) process.exit(130);
    if (since !== null) return;
    since = performance.now();
    starting
      .then((server) => server.stop())
      .then(() => {
        say('Hookledger stopped.');
        process.exit(0);
      })
      .catch(fail);
  };
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
};

/**
 * An error that nobody expected leaves the program in a state that nobody knows. It ends; what was answered is in the
 * log, Postgres goes on, and the next start joins it. Node's own report is kept back: a message may quote content.
 */
const dieClearly = (logger: Logger): void => {
  const die = (error: unknown): void => {
    logger.fatal(errorFacts(error), 'an unexpected error ends the program');
    logger.flush(() => process.exit(1));
  };
  process.on('uncaughtException', die);
  process.on('unhandledRejection', die);
};

main().catch(fail);
