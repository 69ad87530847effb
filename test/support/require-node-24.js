/**
 * Jest started through the system's Node (`./node_modules/.bin/jest` from a shell) fails far from the cause, and
 * without the flag some specs even pass as CommonJS. Say both at once, in words.
 */
const requireNode24 = () => {
  const major = Number(process.versions.node.split('.')[0]);
  if (major < 24) {
    throw new Error(
      `These tests need Node 24 and run on ${process.version}. Start them with npm ("npm test", "npm test -- PATH"): ` +
        'npm puts the Node that came with "npm ci" first on the path.',
    );
  }
  const flags = [...process.execArgv, process.env.NODE_OPTIONS ?? ''].join(' ');
  if (!flags.includes('--experimental-vm-modules')) {
    throw new Error('These tests are ES modules: start them with "npm test", which passes --experimental-vm-modules.');
  }
};

// Jest calls the default export; no module of ours has one.
export default requireNode24;
