import { createClient } from '#sdk';

/** A client as the environment says. */
export const connect = (more = {}) => {
  const {
    HOOKLEDGER_URL: url = 'http://127.0.0.1:3000',
    HOOKLEDGER_KEY: key,
    HOOKLEDGER_ACCOUNT: account,
  } = process.env;
  if (key === undefined) throw new Error('give a key in HOOKLEDGER_KEY');
  return createClient({ url, key, ...(account === undefined ? {} : { account }), ...more });
};
