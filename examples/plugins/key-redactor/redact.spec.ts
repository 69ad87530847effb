import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { redact } from './redact.js';

// Made while the test runs, so that no scanner mistakes this file for a leak.
const lower = 'abcdefghijklmnopqrstuvwxyz';
const letters = `${lower}${lower.toUpperCase()}`;
const digits = '0123456789';

const chars = (alphabet: string, length: number): fc.Arbitrary<string> =>
  fc.string({ unit: fc.constantFrom(...Array.from(alphabet)), minLength: length, maxLength: length });

const alnum = (length: number): fc.Arbitrary<string> => chars(letters + digits, length);
const after = (prefix: string, rest: fc.Arbitrary<string>): fc.Arbitrary<string> => rest.map((text) => prefix + text);
/** Keys that must look random to count hold both kinds of characters. */
const random = (length: number): fc.Arbitrary<string> => alnum(length - 2).map((text) => `A7${text}`);

/** Secrets that are known by their own shape. */
const secrets: Readonly<Record<string, fc.Arbitrary<string>>> = {
  'AWS access key': fc
    .constantFrom('AKIA', 'ASIA')
    .chain((kind) => after(kind, chars(`${lower.toUpperCase()}${digits}`, 16))),
  'GitHub token': fc.oneof(
    fc.constantFrom('ghp_', 'gho_', 'ghu_', 'ghs_', 'ghr_').chain((kind) => after(kind, alnum(36))),
    after('github_pat_', alnum(82)),
  ),
  'GitLab token': fc.constantFrom('glpat-', 'gldt-', 'glrt-').chain((kind) => after(kind, alnum(20))),
  'Slack token': fc.constantFrom('xoxb-', 'xoxp-', 'xoxa-').chain((kind) =>
    after(
      kind,
      alnum(24).map((text) => `123456789012-${text}`),
    ),
  ),
  'Stripe key': fc.constantFrom('sk_live_', 'rk_live_', 'sk_test_').chain((kind) => after(kind, alnum(24))),
  'API key': fc
    .constantFrom('sk-', 'sk-proj-', 'sk-ant-api03-', 'sk-svcacct-')
    .chain((kind) => after(kind, random(48))),
  'Google API key': after('AIza', alnum(35)),
  'Google token': after('ya29.', alnum(60)),
  'npm token': after('npm_', alnum(36)),
  'Hugging Face token': after('hf_', random(34)),
  'SendGrid key': fc.tuple(alnum(22), alnum(43)).map(([one, two]) => `SG.${one}.${two}`),
  'Vault token': after('hvs.', alnum(30)),
  JWT: fc.tuple(alnum(30), alnum(60), alnum(43)).map(([one, two, three]) => `eyJ${one}.eyJ${two}.${three}`),
  'private key': fc
    .tuple(fc.constantFrom('', 'RSA ', 'EC ', 'OPENSSH ', 'ENCRYPTED '), fc.array(alnum(64), { maxLength: 4 }))
    .map(
      ([kind, lines]) => `-----BEGIN ${kind}PRIVATE KEY-----\n${lines.join('\n')}\n-----END ${kind}PRIVATE KEY-----`,
    ),
};

const secret = fc
  .constantFrom(...Object.entries(secrets))
  .chain(([name, text]) => text.map((value) => ({ name, value })));

/** Words of ordinary output, with what might be mistaken for a part of a secret beside it. */
const neighbour = fc.constantFrom(
  '',
  'total 12',
  'drwxr-xr-x',
  '2026-11-30T10:00:00Z',
  'a1b2c3d4',
  '"quoted"',
  '(x)',
  'é',
  '名前',
  '\u2028',
  '\0',
  '42',
  '/usr/lib',
  'ok.',
  'key:',
  'id=7',
  '7342918273645182977',
);
const gap = fc.constantFrom(' ', '\n', '\t', ' "', ' (', ' [', ', ', '; ', '\r\n', "='", ' > ');
const close = fc.constantFrom(' ', '\n', '"', ')', ']', ', ', ';', '. ', "'", ' <', '\r\n');

describe('the key redactor', () => {
  it.each(Object.entries(secrets))('takes out a %s and leaves its neighbours', (name, values) => {
    fc.assert(
      fc.property(neighbour, gap, values, close, neighbour, (before, open, value, end, behind) => {
        const { text, found } = redact(`${before}${open}${value}${end}${behind}`);
        expect(text).toBe(`${before}${open}[redacted ${name}]${end}${behind}`);
        expect(found).toEqual([name]);
      }),
    );
  });

  it('changes nothing when it is run again', () => {
    const piece = fc.oneof(
      neighbour,
      gap,
      close,
      secret.map(({ value }) => value),
      fc.string({ maxLength: 12 }),
      fc.constantFrom(
        'password=',
        'TOKEN=',
        '"secret": "',
        'Authorization: Bearer ',
        '://u:',
        '@h',
        '-----BEGIN RSA PRIVATE KEY-----',
        '[redacted secret]',
        '[redacted ',
      ),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 14 }), fc.boolean(), (pieces, cut) => {
        const once = redact(pieces.join(''), cut).text;
        expect(redact(once, cut)).toEqual({ text: once, found: [] });
      }),
      { numRuns: 2_000 },
    );
  });

  it('finds every secret among many', () => {
    fc.assert(
      fc.property(fc.array(secret, { minLength: 1, maxLength: 12 }), (list) => {
        const { text, found } = redact(list.map(({ value }) => value).join('\n'));
        expect(found).toEqual(list.map(({ name }) => name));
        for (const { value } of list) expect(text).not.toContain(value);
      }),
    );
  });

  const key = 'Zx9'.repeat(7);
  it.each([
    [`aws_secret_access_key = "${key}/+abc"`, 'aws_secret_access_key = "[redacted secret]"'],
    [`DB_PASSWORD=${key}`, 'DB_PASSWORD=[redacted secret]'],
    [`export API_KEY='${key}'; ls`, "export API_KEY='[redacted secret]'; ls"],
    [`{"password":"${key}","user":"me"}`, '{"password":"[redacted secret]","user":"me"}'],
    [`{"clientSecret": "with spaces in it", "n": 1}`, '{"clientSecret": "[redacted secret]", "n": 1}'],
    [`db:\n  password: ${key}\n  host: x`, 'db:\n  password: [redacted secret]\n  host: x'],
    [`GET /x?access_token=${key}&page=2`, 'GET /x?access_token=[redacted secret]&page=2'],
    [`Server=x;Password=${key};Timeout=5`, 'Server=x;Password=[redacted secret];Timeout=5'],
    [`Authorization: Bearer ${key}`, 'Authorization: Bearer [redacted token]'],
    [`-H "Authorization: Basic dXNlcjpwYXNz" -v`, '-H "Authorization: Basic [redacted token]" -v'],
    [`X-Api-Key: ${key}\nAccept: */*`, 'X-Api-Key: [redacted secret]\nAccept: */*'],
    [`postgres://me:${key}@db:5432/app`, 'postgres://me:[redacted password]@db:5432/app'],
    [`redis://:${key}@cache`, 'redis://:[redacted password]@cache'],
    [`https://me:p@ss@host/`, 'https://me:[redacted password]@host/'],
    [`mysql --password=${key} app`, 'mysql --password=[redacted secret] app'],
    [`authtoken=${key}`, 'authtoken=[redacted secret]'],
    [`AccountKey=${'Ab1/'.repeat(21)}Zz==;x`, 'AccountKey=[redacted Azure key];x'],
    [`https://hooks.slack.com/services/T000/B000/${key}`, 'https://hooks.slack.com/services/[redacted Slack webhook]'],
  ])('reads the label of %j', (text, expected) => {
    expect(redact(text).text).toBe(expected);
  });

  it.each([
    ['PASSWORD_FILE=/run/secrets/db'], ['password=$DB_PASSWORD'], ['password: ${DB_PASSWORD}'], ['"password": "{{ vault }}"'], ['TOKEN=<your token>'], ['max_tokens=4096'], ['"tokens": 1200'], ['Password: '], ['Enter the password: then wait'],
    ['token: required'], ['password=***'], ['http://host:8080/path@v2'], ['git@github.com:a/b.git'], ['user@host'], ['https://me@host/x'], ['sk-learn is a library, sk-some-long-kebab-case-name is not a key'], ['task-force-alpha-bravo-charlie-delta'], ['AKIA is four letters'],
    ['BEGIN PRIVATE KEY'], ['-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----'], ['-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----'], ['sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'], ['7342918273645182977'], ['eyJ is how they begin'], ['Authorization: required'], ['PWD=/home/me'], ['secretary: Ann'], ['/dev/disk/by-uuid/9f86d081-884c'], ['PASSWORD=/run/secrets/db_password'],
  ])('leaves %j alone', (text) => {
    expect(redact(text)).toEqual({ text, found: [] });
  }); // prettier-ignore

  it('takes out a private key whose end was cut off, and nothing after it', () => {
    const body = `${'Ab1+'.repeat(16)}\n`.repeat(3);
    const { text } = redact(`x\n-----BEGIN OPENSSH PRIVATE KEY-----\n${body}exit status 0, all well\n`);
    expect(text).toBe('x\n[redacted private key]\nexit status 0, all well\n');
    expect(
      redact(`-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: X,1\n\n${body}`).text,
    ).not.toContain('Ab1+');
  });

  it('takes out a key inside JSON', () => {
    const body = JSON.stringify({
      private_key: `-----BEGIN PRIVATE KEY-----\n${'Ab1+'.repeat(16)}\n-----END PRIVATE KEY-----\n`,
      id: 7,
    });
    expect(redact(body).text).not.toContain('Ab1+');
    expect(JSON.parse(redact(body).text)).toMatchObject({ id: 7 });
  });

  it('takes out the beginning of a secret where a text was cut', () => {
    expect(redact('token is ghp_abcdEFGH12', true).text).toBe('token is [redacted beginning of a secret]');
    expect(redact('token is ghp_abcdEFGH12', false).found).toEqual([]);
    expect(redact('the end', true).found).toEqual([]);
  });
});
