import { describe, expect, it } from '@jest/globals';
import { Misuse } from '../words.js';
import { problemWords, readConnection } from './connection.js';

const secret = 'hlk_not-to-be-shown';

describe('whom to speak to', () => {
  it('is the local server and the account default where nothing else is said', () => {
    expect(readConnection({}, { HOOKLEDGER_KEY: secret })).toEqual({
      account: 'http://127.0.0.1:3000/v1/accounts/default',
      key: secret,
    });
  });

  it('is what the options say, before what the environment says', () => {
    const env = { HOOKLEDGER_URL: 'http://environment:1', HOOKLEDGER_KEY: 'of-the-environment' };
    expect(readConnection({ url: 'https://hooks.example/base/', key: secret, account: 'a/b ü' }, env)).toEqual({
      account: 'https://hooks.example/base/v1/accounts/a%2Fb%20%C3%BC',
      key: secret,
    });
  });

  it.each([
    ['no URL', 'hooks.example'],
    ['another protocol', 'file:///etc'],
    ['a password in it', `http://me:${secret}@hooks.example`],
    ['a query', `http://hooks.example/?key=${secret}`],
  ])('is refused for %s, which is not shown', (_what, url) => {
    const read = (): unknown => readConnection({ url }, { HOOKLEDGER_KEY: secret });
    expect(read).toThrow(Misuse);
    expect(read).not.toThrow(secret);
  });

  it.each([
    ['no key', undefined],
    ['an empty key', ''],
    ['a key with a line break', `${secret}\n`],
    ['a key with a letter that no header takes', `${secret}ü`],
  ])('is refused for %s, which is not shown', (_what, key) => {
    const read = (): unknown => readConnection({}, { HOOKLEDGER_KEY: key });
    expect(read).toThrow(Misuse);
    expect(read).not.toThrow(secret);
  });
});

describe('a problem in words', () => {
  const problem = {
    type: 'urn:hookledger:problem:invalid_body',
    status: 422,
    code: 'invalid_body',
    detail: 'The context does not fit.',
    errors: [
      { pointer: '/context/agentId', reason: 'is missing' },
      { pointer: '/context/x', reason: 'unknown\u001b[31m field' },
    ],
    requestId: 'r-1',
  };

  it('says the detail and each faulty field, and nothing that a terminal obeys', () => {
    expect(problemWords(422, JSON.stringify(problem))).toBe(
      '422 invalid_body: The context does not fit. (request r-1)\n' +
        '  /context/agentId: is missing\n' +
        '  /context/x: unknown [31m field',
    );
  });

  it.each([['<html>secret</html>'], [''], ['null'], ['{"detail":5}'], ['[]']])('does not quote %j', (body) => {
    expect(problemWords(502, body)).toBe("The server answered 502, in words that are none of Hookledger's.");
  });

  it('passes over faults that are none', () => {
    expect(problemWords(400, '{"detail":"d","errors":[null,1,{"pointer":"/a"}]}')).toBe('400: d');
  });
});
