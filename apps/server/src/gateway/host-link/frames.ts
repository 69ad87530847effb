import { Ajv } from 'ajv';
import { readJsonBody } from '#platform';
import type { Json, JsonObject } from '#record';

/** The protocol that a runtime names in `Sec-WebSocket-Protocol` when it begins with a `hello`. */
export const subprotocol = 'hookledger.host-link.v1';

/** Longest frame either way, bytes: a result of 8 MiB and what stands around it. */
export const maxFrameBytes = 8 * 1024 * 1024 + 64 * 1024;

/** What a runtime says it serves; null: everything. */
export interface Serves {
  /** Members, or groups of them: `ssh.command`, `session`. */
  readonly members: readonly string[] | null;
  readonly sessionIds: readonly string[] | null;
  readonly agentIds: readonly string[] | null;
  readonly sshHostIds: readonly string[] | null;
}

/** A runtime that has not said otherwise. */
export const everything: Serves = { members: null, sessionIds: null, agentIds: null, sshHostIds: null };

/** What a runtime says. */
export type RuntimeFrame =
  | { readonly type: 'hello'; readonly runtimeId: string; readonly serves: Serves }
  | { readonly type: 'result'; readonly callId: string; readonly value: Json }
  | { readonly type: 'error'; readonly callId: string; readonly message: string; readonly code: string | null };

/** A frame, or what is wrong with it. `callId` names the call that it would have answered, where that can be read. */
export type ReadFrame =
  | { readonly kind: 'frame'; readonly frame: RuntimeFrame }
  | { readonly kind: 'fault'; readonly code: FrameFault; readonly detail: string; readonly callId: string | null };

export type FrameFault = 'not_json' | 'bad_frame' | 'unknown_type';

const idSchema = { type: 'string', minLength: 1, maxLength: 200 };
const ids = (most: number): object => ({ type: 'array', maxItems: most, items: idSchema });

/** JSON Schema of a `hello`. */
export const helloSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['type', 'runtimeId'],
  properties: {
    type: { type: 'string', enum: ['hello'] },
    protocol: { type: 'integer', enum: [1] },
    runtimeId: idSchema,
    members: ids(100),
    sessionIds: ids(10_000),
    agentIds: ids(10_000),
    sshHostIds: ids(10_000),
  },
} as const;

const isHello = new Ajv({ strict: false }).compile(helloSchema);

/** Most characters of an error that a runtime gives. */
const maxMessage = 2_000;

/** Reads a text frame as strictly as a body: duplicate keys, depth and numbers that would be rounded are faults. */
export const readFrame = (bytes: Buffer): ReadFrame => {
  const frame = parsed(bytes);
  if (frame === null) return fault('not_json', 'a frame is JSON that can be kept as it came', callIdIn(bytes));
  if (typeof frame !== 'object' || Array.isArray(frame)) return fault('bad_frame', 'a frame is an object');
  const object = frame as JsonObject;
  switch (object.type) {
    case 'hello':
      return readHello(object);
    case 'result':
      return readResult(object);
    case 'error':
      return readError(object);
    default:
      return fault('unknown_type', 'type is hello, result or error');
  }
};

const parsed = (bytes: Buffer): unknown => {
  try {
    return readJsonBody(bytes);
  } catch {
    return null;
  }
};

/** Which call a frame that cannot be taken was to answer: it is answered with the fault, rather than never. */
const callIdIn = (bytes: Buffer): string | null => {
  try {
    const { callId } = JSON.parse(bytes.toString('utf8')) as { readonly callId?: unknown };
    return typeof callId === 'string' ? callId : null;
  } catch {
    return null;
  }
};

const fault = (code: FrameFault, detail: string, callId: string | null = null): ReadFrame => ({
  kind: 'fault',
  code,
  detail,
  callId,
});

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '' && value.length <= 200;

const readHello = (object: JsonObject): ReadFrame => {
  if (!isHello(object)) {
    const [first] = isHello.errors ?? [];
    return fault('bad_frame', `hello${first?.instancePath ?? ''} ${first?.message ?? 'does not fit'}`);
  }
  const list = (name: string): readonly string[] | null => (object[name] as readonly string[] | undefined) ?? null;
  const serves = {
    members: list('members'),
    sessionIds: list('sessionIds'),
    agentIds: list('agentIds'),
    sshHostIds: list('sshHostIds'),
  };
  return { kind: 'frame', frame: { type: 'hello', runtimeId: object.runtimeId as string, serves } };
};

const readResult = ({ callId, value = null }: JsonObject): ReadFrame => {
  if (!isText(callId)) return fault('bad_frame', 'callId is a text');
  return { kind: 'frame', frame: { type: 'result', callId, value } };
};

const readError = ({ callId, message, code = null }: JsonObject): ReadFrame => {
  if (!isText(callId)) return fault('bad_frame', 'callId is a text');
  if (typeof message !== 'string') return fault('bad_frame', 'message is a text', callId);
  if (code !== null && !(typeof code === 'string' && /^[a-z][a-z0-9_]{0,63}$/u.test(code)))
    return fault('bad_frame', 'code is small letters, digits and underscores', callId);
  return { kind: 'frame', frame: { type: 'error', callId, message: cut(message), code } };
};

/** By code units, without leaving half a surrogate pair. */
const cut = (text: string): string => {
  if (text.length <= maxMessage) return text;
  const last = text.charCodeAt(maxMessage - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? maxMessage - 1 : maxMessage);
};
