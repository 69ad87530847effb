import type { HostAnswer, HostCallRequest } from '#firing';
import type { Json, JsonObject } from '#record';
import type { Settings } from '../../control/accounts/settings.js';
import { hostOf, hostsOf, mayReach } from './allowed-hosts.js';
import type { Outbound, OutboundFault } from './outbound.js';

/** Most bytes of an answer that a plugin is given, and most time for it, ms; the handler's own clock runs beside. */
const maxBytes = 4 * 1024 * 1024;
const timeMs = 30_000;
const redirects = 5;

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/** Headers that say how a message travels, which is not the plugin's to say. */
const ours = new Set([
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
  'upgrade',
  'te',
  'trailer',
  'expect',
  'keep-alive',
  'accept-encoding',
]);

/**
 * `host.fetch(url, { method, headers, body })` → `{ status, headers, body, isBase64 }`, by the platform itself. Only to
 * hosts that the account lets the plugin reach, and never to an address that is not public.
 */
export const hostFetch = async (
  { args, pluginId, signal }: Pick<HostCallRequest, 'args' | 'pluginId' | 'signal'>,
  settings: Pick<Settings, 'fetchHosts' | 'pluginFetchHosts'>,
  send: Outbound,
): Promise<HostAnswer> => {
  const read = readFetch(args);
  if (read.kind === 'refused') return read;
  const hosts = hostsOf(settings, pluginId);
  const { url, method, headers, body } = read;
  const judge = (next: URL): OutboundFault | null => judgeUrl(next, hosts);
  const answer = await send({ url, method, headers, body, signal, timeMs, maxBytes, redirects, judge });
  if (answer.kind === 'failed') {
    const { code, message, isRefusal } = answer;
    return { kind: isRefusal ? 'refused' : 'error', code, message };
  }
  const text = textOf(answer.body);
  const value = {
    status: answer.status,
    headers: answer.headers,
    body: text ?? answer.body.toString('base64'),
    isBase64: text === null,
  };
  return { kind: 'value', json: JSON.stringify(value) };
};

const judgeUrl = (url: URL, hosts: readonly string[]): OutboundFault | null => {
  const fault = (code: string, message: string): OutboundFault => ({ code, message, isRefusal: true });
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return fault('scheme_not_allowed', 'only http and https');
  if (url.username !== '' || url.password !== '')
    return fault('credentials_in_url', 'a URL holds no name and password');
  if (mayReach(hosts, url)) return null;
  return fault('host_not_allowed', `the account does not let this plugin reach ${hostOf(url)}`);
};

/** What a plugin asked for, as far as it can be asked for. */
type ReadFetch =
  | {
      readonly kind: 'read';
      readonly url: URL;
      readonly method: string;
      readonly headers: Readonly<Record<string, string>>;
      readonly body: string | null;
    }
  | { readonly kind: 'refused'; readonly code: string; readonly message: string };

const refused = (code: string, message: string): ReadFetch => ({ kind: 'refused', code, message });

const readFetch = ([address, options = {}]: readonly Json[]): ReadFetch => {
  if (typeof address !== 'string' || !URL.canParse(address)) return refused('bad_url', 'the URL cannot be read');
  if (!isObject(options)) return refused('bad_argument', 'the options are an object');
  const unknown = Object.keys(options).find((name) => !['method', 'headers', 'body'].includes(name));
  if (unknown !== undefined) return refused('bad_argument', 'the options are method, headers and body');
  const { method = 'GET', headers = {}, body = null } = options;
  if (typeof method !== 'string' || !methods.includes(method.toUpperCase()))
    return refused('bad_argument', `the method is ${methods.join(', ')}`);
  if (body !== null && (typeof body !== 'string' || !body.isWellFormed()))
    return refused('bad_argument', 'the body is a text');
  if (body !== null && ['GET', 'HEAD'].includes(method.toUpperCase()))
    return refused('bad_argument', 'GET and HEAD have no body');
  const given = readHeaders(headers);
  if (given === null)
    return refused('bad_argument', 'headers are names and texts, and none of those of the connection');
  const url = new URL(address);
  url.hash = '';
  return { kind: 'read', url, method: method.toUpperCase(), headers: given, body };
};

const isObject = (value: Json): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Null: one of them cannot be sent, or is not the plugin's to send. */
const readHeaders = (headers: Json): Readonly<Record<string, string>> | null => {
  if (!isObject(headers)) return null;
  const entries = Object.entries(headers);
  const fits = entries.every(
    ([name, value]) =>
      /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}$/u.test(name) &&
      typeof value === 'string' &&
      /^[\t\x20-\x7e\x80-\xff]{0,8192}$/u.test(value) &&
      !ours.has(name.toLowerCase()) &&
      !/^(?:proxy-|sec-)/iu.test(name),
  );
  if (!fits || entries.length > 100) return null;
  return Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), value as string]));
};

/** Null: no UTF-8, so no text. */
const textOf = (bytes: Buffer): string | null => {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
};
