import type { BlobWrite } from '#event-store';
import type { Json, Sealed } from '#record';

/** Whose key: the data subject the caller named, else the session, else the account (events.md §3). */
export type Scope =
  | { readonly kind: 'subject'; readonly id: string }
  | { readonly kind: 'session'; readonly id: string }
  | { readonly kind: 'account' };

/**
 * Seals the values of one append under one scope. Synchronous: the key was made durable before this was handed out.
 * The same JSON text in one envelope is sealed once.
 */
export interface Envelope {
  seal(value: Json): Sealed;
  /** Seals JSON text that was already serialised. */
  sealText(jsonText: string): Sealed;
  /** Blobs that `seal` made and the append must carry. */
  blobs(): readonly BlobWrite[];
}

/** What a sealed value opens to. */
export type Opened =
  { readonly kind: 'open'; readonly value: Json } | { readonly kind: 'erased'; readonly size: number };

/** The same as the JSON text that was sealed, digit for digit. */
export type OpenedText =
  { readonly kind: 'open'; readonly text: string } | { readonly kind: 'erased'; readonly size: number };

export interface Sealing {
  /** Finds or makes (and commits) the scope's data key. Two replicas agree on one. */
  envelope(account: string, scope: Scope): Promise<Envelope>;
  /** Opens a value of this account; `erased` after its key was destroyed. Throws on a value of another account. */
  open(account: string, sealed: Sealed): Promise<Opened>;
  /** As `open`, but gives the text: numbers that a double cannot hold keep their digits (events.md §1.3). */
  openText(account: string, sealed: Sealed): Promise<OpenedText>;
  /** HMAC under an account key, hex: lets a person's id be searched and still be erased. */
  searchHash(account: string, text: string): Promise<string>;
  /** Size in bytes that a hidden value shows. */
  sizeOf(sealed: Sealed): number;
}

/** The keys of a scope that live, and the scope in the words of the key table, where a person is only an HMAC. */
export interface LivingKeys {
  readonly scope: string;
  readonly ids: readonly string[];
}

/** What destroys keys: erasure, beside the sealing that everybody uses. */
export interface KeyErasure {
  /** Destroys the scope's data keys and answers with their ids; content under them opens as `erased` from then on. */
  erase(account: string, scope: Scope): Promise<readonly string[]>;
  /** The scope's living keys; of `everything`, all that the account has. */
  livingKeys(account: string, scope: Scope | { readonly kind: 'everything' }): Promise<LivingKeys>;
  /** Destroys these keys of an account, those that still live. */
  destroyKeys(account: string, ids: readonly string[]): Promise<void>;
  /** Drops what this process keeps of keys that were destroyed elsewhere: it neither seals nor opens under them again. */
  forgetKeys(ids: readonly string[]): void;
}

/** True for the JSON form of a sealed value. */
export const isSealed = (value: unknown): value is Sealed =>
  typeof value === 'object' && value !== null && ('$sealed' in value || '$blob' in value);
