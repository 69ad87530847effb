import { KafkaFailure } from './port.js';

/** What kafkajs, its sockets and the brokers' answers have to tell errors apart. */
interface Facts {
  readonly name?: unknown;
  /** The broker's word, for example `MESSAGE_TOO_LARGE`. */
  readonly type?: unknown;
  /** The socket's word, for example `ECONNREFUSED`. */
  readonly code?: unknown;
  readonly cause?: unknown;
  readonly errors?: unknown;
  readonly originalError?: unknown;
}

/** Any error of the client in words of ours: what the client and the broker wrote may quote what they were given. */
export const failureOf = (error: unknown): KafkaFailure => {
  if (error instanceof KafkaFailure) return error;
  const words = wordsOf(error);
  const known = table.find(({ when }) => words.some((word) => when.test(word)));
  const code = words.find((word) => known?.when.test(word) === true) ?? words[0] ?? 'unknown';
  return new KafkaFailure(known?.kind ?? 'unavailable', `${known?.message ?? 'Kafka did not do it'} (${code})`, code);
};

/** Runs it; what it rejects with is a `KafkaFailure`. */
export const named = async <T>(work: () => Promise<T>): Promise<T> => {
  try {
    return await work();
  } catch (error) {
    throw failureOf(error);
  }
};

const table: readonly {
  readonly when: RegExp;
  readonly kind: KafkaFailure['kind'];
  readonly message: string;
}[] = [
  {
    when: /^(?:MESSAGE_TOO_LARGE|RECORD_LIST_TOO_LARGE)$/u,
    kind: 'too-large',
    message: 'the topic does not take messages of this size',
  },
  {
    when: /^KafkaJSSASLAuthenticationError$|^SASL_AUTHENTICATION_FAILED$/u,
    kind: 'refused',
    message: 'Kafka does not know this user or its password (HOOKLEDGER_KAFKA_SASL_USERNAME, _PASSWORD)',
  },
  {
    when: /^UNSUPPORTED_SASL_MECHANISM$|^ILLEGAL_SASL_STATE$/u,
    kind: 'refused',
    message: 'Kafka does not take this way of signing in (HOOKLEDGER_KAFKA_SASL_MECHANISM)',
  },
  {
    when: /_AUTHORIZATION_FAILED$/u,
    kind: 'refused',
    message: 'this user may not do that on Kafka',
  },
  {
    when: /SELF_SIGNED|UNABLE_TO_(?:VERIFY|GET)|^CERT_|^ERR_TLS_CERT_ALTNAME_INVALID$/u,
    kind: 'refused',
    message: "the broker's certificate is not trusted (HOOKLEDGER_KAFKA_SSL_CA)",
  },
  {
    when: /^(?:EPROTO|ERR_SSL_|ERR_TLS_)/u,
    kind: 'refused',
    message: 'no TLS connection to the broker (HOOKLEDGER_KAFKA_SSL): its listener may speak plain text',
  },
  {
    when: /^(?:ENOTFOUND|EAI_AGAIN|EAI_FAIL)$/u,
    kind: 'unavailable',
    message: "a broker's name is not known (HOOKLEDGER_KAFKA_BROKERS)",
  },
  {
    when: /^(?:ECONNREFUSED|EHOSTUNREACH|ENETUNREACH)$/u,
    kind: 'unavailable',
    message: "nobody listens at the brokers' addresses (HOOKLEDGER_KAFKA_BROKERS)",
  },
  {
    when: /^(?:INVALID_REPLICATION_FACTOR|NOT_ENOUGH_REPLICAS|NOT_ENOUGH_REPLICAS_AFTER_APPEND)$/u,
    kind: 'unavailable',
    message: 'there are not enough brokers for the replicas that the topic wants',
  },
  {
    when: /^(?:ETIMEDOUT|REQUEST_TIMED_OUT|KafkaJSRequestTimeoutError|KafkaJSTimeout|KafkaJSLockTimeout)$/u,
    kind: 'unavailable',
    message: 'a broker does not answer',
  },
  {
    when: /^(?:ECONNRESET|EPIPE|KafkaJSConnectionClosedError)$/u,
    kind: 'unavailable',
    message:
      'a broker closed the connection; from the start, only one side may speak TLS (HOOKLEDGER_KAFKA_SSL), or it wants a user',
  },
  {
    // What kafkajs throws once it took a silent connection for a good one.
    when: /^Error$/u,
    kind: 'unavailable',
    message: 'a broker takes connections and does not answer',
  },
  {
    when: /^KafkaJSConnectionError$/u,
    kind: 'unavailable',
    message: 'no connection to a broker',
  },
];

/** Everything that tells an error apart, outermost last, the broker's words before names of classes. */
const wordsOf = (error: unknown): readonly string[] => {
  const words: string[] = [];
  const seen = new Set<unknown>();
  const visit = (at: unknown): void => {
    if (typeof at !== 'object' || at === null || seen.has(at) || seen.size > 20) return;
    seen.add(at);
    const { name, type, code, cause, errors, originalError } = at as Facts;
    for (const inner of [cause, originalError, ...(Array.isArray(errors) ? (errors as unknown[]) : [])]) visit(inner);
    for (const word of [type, code, name]) if (typeof word === 'string') words.push(word);
  };
  visit(error);
  return words;
};
