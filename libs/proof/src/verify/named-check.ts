import { LRUCache } from 'lru-cache';
import type { OnFault } from './fault.js';
import type { LogSource } from './source.js';

/** What is known of blobs and keys before the events are read. */
export interface KnownThings {
  /** Blobs whose bytes are not what their hash says (hex), with whether an event was found that names them. */
  readonly changedBlobs: Map<string, 'unnamed' | 'named'>;
  readonly changedKeys: Map<string, 'unnamed' | 'named'>;
  /** Data keys whose destruction is on record. */
  readonly erasedKeys: ReadonlyMap<string, unknown>;
}

interface NamedAt {
  readonly account: string;
  readonly position: number;
  readonly keyId: string;
}

const askAt = 2_000;
const isHash = /^[\da-f]{64}$/u;
const isKeyId = /^[\w-]{1,200}$/u;

/**
 * Looks up whether the blobs and keys that events name are there. What was found is remembered for a while, since
 * neighbouring events name the same; what is to be asked is asked many at a time.
 */
export class NamedCheck {
  private readonly knownBlobs = new LRUCache<string, true>({ max: 50_000 });
  private readonly knownKeys = new LRUCache<string, true>({ max: 20_000 });
  private readonly blobs = new Map<string, NamedAt>();
  private readonly keys = new Map<string, NamedAt>();
  // The value that an event takes in it often gives back: asking the cache again is what can be saved.
  private lastBlob = '';
  private lastKey = '';
  private account = '';
  private position = 0;

  constructor(
    private readonly source: LogSource,
    private readonly known: KnownThings,
    private readonly onFault: OnFault,
  ) {}

  /** Whose names come now. */
  at(account: string, position: number): void {
    if (account !== this.account) {
      this.account = account;
      this.lastKey = '';
      this.knownKeys.clear();
    }
    this.position = position;
  }

  blob(hash: string, keyId: string): void {
    this.key(keyId);
    if (hash === this.lastBlob) return;
    this.lastBlob = hash;
    if (this.known.changedBlobs.get(hash) === 'unnamed') {
      this.known.changedBlobs.set(hash, 'named');
      this.fault('blob-changed', hash, 'its bytes have another hash');
    }
    if (this.knownBlobs.get(hash) === true || this.blobs.has(hash)) return;
    // In bytes that were changed anything may stand in its place: a source is only asked for what it could have.
    if (!isHash.test(hash)) {
      this.knownBlobs.set(hash, true);
      this.missing(hash, { account: this.account, position: this.position, keyId });
      return;
    }
    this.blobs.set(hash, { account: this.account, position: this.position, keyId });
  }

  key(keyId: string): void {
    if (keyId === this.lastKey) return;
    this.lastKey = keyId;
    if (this.known.changedKeys.get(keyId) === 'unnamed') {
      this.known.changedKeys.set(keyId, 'named');
      this.fault('key-changed', keyId, 'it does not open under the master key');
    }
    if (this.knownKeys.get(keyId) === true || this.keys.has(keyId)) return;
    if (!isKeyId.test(keyId)) {
      this.knownKeys.set(keyId, true);
      this.fault('key-missing', keyId, 'this is no id of a key');
      return;
    }
    this.keys.set(keyId, { account: this.account, position: this.position, keyId });
  }

  /** Whether enough has come together for a question. */
  get isFull(): boolean {
    return this.blobs.size >= askAt || this.keys.size >= askAt;
  }

  /** Asks for everything that came together. */
  async ask(): Promise<void> {
    await this.askForKeys();
    await this.askForBlobs();
  }

  private async askForKeys(): Promise<void> {
    const asked = [...this.keys];
    this.keys.clear();
    if (asked.length === 0) return;
    const found = await this.source.dataKeysThere(asked.map(([id]) => id));
    for (const [id, named] of asked) {
      const state = found.get(id);
      if (state === undefined) this.faultAt('key-missing', named, `data key ${id}`, 'there is no such row');
      else if (state.account !== named.account) {
        this.faultAt('key-of-another', named, `data key ${id}`, `it is of account ${state.account}`);
      }
      if (named.account === this.account) this.knownKeys.set(id, true);
    }
  }

  private async askForBlobs(): Promise<void> {
    const asked = [...this.blobs];
    this.blobs.clear();
    if (asked.length === 0) return;
    const found = await this.source.blobsThere(asked.map(([hash]) => hash));
    for (const [hash, named] of asked) {
      const keyId = found.get(hash);
      this.knownBlobs.set(hash, true);
      if (keyId === undefined) this.missing(hash, named);
      else if (keyId !== named.keyId) {
        this.faultAt('blob-key-changed', named, `blob ${hash}`, `its row names ${keyId ?? 'none'}, not ${named.keyId}`);
      }
    }
  }

  private missing(hash: string, named: NamedAt): void {
    if (this.known.erasedKeys.has(named.keyId)) return;
    this.faultAt('blob-missing', named, `blob ${hash}`, `data key ${named.keyId} was not erased`);
  }

  private fault(code: 'blob-changed' | 'key-changed' | 'key-missing', id: string, found: string): void {
    const what = code === 'blob-changed' ? 'blob' : 'data key';
    this.onFault({ code, account: this.account, position: this.position, at: `${what} ${id}`, found });
  }

  private faultAt(
    code: 'key-missing' | 'key-of-another' | 'blob-missing' | 'blob-key-changed',
    { account, position }: NamedAt,
    at: string,
    found: string,
  ): void {
    this.onFault({ code, account, position, at, found });
  }
}
