import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** What a broker that speaks TLS needs, and what its clients trust. */
export interface Certificates {
  /** PKCS #12 with the broker's key and the authority's certificate. */
  readonly keystore: string;
  readonly password: string;
  /** PEM of the authority that signed the broker's certificate. */
  readonly authority: string;
}

const password = 'for-a-broker-on-loopback';

/** An authority of one's own and a certificate for `localhost` and 127.0.0.1, made by Java's keytool in `folder`. */
export const makeCertificates = (java: string, folder: string): Certificates => {
  const [keystore, authority] = [join(folder, 'broker.p12'), join(folder, 'authority.pem')];
  const made = { keystore, password, authority };
  const signed = join(folder, 'broker.pem');
  if (existsSync(signed)) return made;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const [authorityStore, request] = [join(folder, 'authority.p12'), join(folder, 'broker.csr')];
  const key = ['-keyalg', 'EC', '-groupname', 'secp256r1', '-validity', '3650'];
  const names = ['-ext', 'san=dns:localhost,ip:127.0.0.1'];
  const tool = keytool(java);
  tool(authorityStore, '-genkeypair', '-alias', 'authority', '-dname', 'CN=Own authority', '-ext', 'bc:c', ...key);
  tool(authorityStore, '-exportcert', '-rfc', '-alias', 'authority', '-file', authority);
  tool(keystore, '-genkeypair', '-alias', 'broker', '-dname', 'CN=localhost', ...key);
  tool(keystore, '-certreq', '-alias', 'broker', '-file', request, ...names);
  const files = ['-infile', request, '-outfile', signed];
  tool(authorityStore, '-gencert', '-rfc', '-alias', 'authority', ...files, ...names, '-validity', '3650');
  tool(keystore, '-importcert', '-noprompt', '-alias', 'authority', '-file', authority);
  tool(keystore, '-importcert', '-alias', 'broker', '-file', signed);
  return made;
};

const keytool = (java: string): ((store: string, ...args: readonly string[]) => void) => {
  const program = dirname(java) === '.' ? 'keytool' : join(dirname(java), 'keytool');
  return (store, ...args) => {
    const where = ['-keystore', store, '-storetype', 'PKCS12', '-storepass', password];
    const ran = spawnSync(program, [...args, ...where], { encoding: 'utf8' });
    if (ran.error !== undefined) throw ran.error;
    if (ran.status !== 0) throw new Error(`keytool ${args[0] ?? ''} failed: ${ran.stdout}${ran.stderr}`);
  };
};
