import { describe, expect, it } from '@jest/globals';
import type { Json } from '#record';
import { judgeInstall } from './install-policy.js';

const digest = 'ab'.repeat(32);
const verdict = (policy: Json | undefined, pluginId = 'team/guard', sourceDigest = digest): string =>
  judgeInstall(policy, { pluginId, sourceDigest }).kind;

describe('an install policy', () => {
  it('allows everything when there is none', () => {
    expect(verdict(undefined)).toBe('allowed');
    expect(verdict(null)).toBe('allowed');
    expect(verdict({})).toBe('allowed');
  });

  it.each<[Json, string]>([
    [{ allow: ['team/*'] }, 'allowed'],
    [{ allow: ['other/*'] }, 'refused'],
    [{ allow: [] }, 'refused'],
    [{ deny: ['*guard'] }, 'refused'],
    [{ deny: ['team'] }, 'allowed'],
    [{ allow: ['*'], deny: ['team/guard'] }, 'refused'],
    [{ allow: [`sha256:${digest}`] }, 'allowed'],
    [{ allow: [`sha256:${'cd'.repeat(32)}`] }, 'refused'],
    [{ deny: [`sha256:${digest.toUpperCase()}`] }, 'refused'],
    [{ allow: ['*'], requireDigest: true }, 'refused'],
    [{ requireDigest: true }, 'refused'],
    [{ allow: [`team/*@sha256:${digest}`], requireDigest: true }, 'allowed'],
    [{ allow: [`other@sha256:${digest}`], requireDigest: true }, 'refused'],
  ])('%j: %s', (policy, expected) => {
    expect(verdict(policy)).toBe(expected);
  });

  it.each<Json>([
    'text',
    [],
    7,
    { alow: [] },
    { allow: 'team/*' },
    { deny: [{ id: 'x' }] },
    { deny: [''] },
    { requireDigest: 'yes' },
    { allow: ['sha256:short'] },
  ])('that cannot be read refuses everything: %j', (policy) => {
    expect(verdict(policy)).toBe('refused');
  });

  it.each<[Json, string]>([
    ['unreadable', 'plugin'],
    [{ deny: ['team/*'] }, 'plugin'],
    [{ deny: [`team/*@sha256:${digest}`] }, 'source'],
    [{ allow: ['other'] }, 'plugin'],
    [{ allow: [`other@sha256:${digest}`] }, 'plugin'],
    [{ allow: [`team/guard@sha256:${'cd'.repeat(32)}`] }, 'source'],
    [{ allow: ['*'], requireDigest: true }, 'source'],
  ])('%j refuses because of the %s', (policy, about) => {
    const refused = judgeInstall(policy, { pluginId: 'team/guard', sourceDigest: digest });
    expect(refused).toMatchObject({ kind: 'refused', about });
  });

  it('stays cheap for a rule made of stars', () => {
    expect(verdict({ deny: [`${'a*'.repeat(90)}!`] }, 'a'.repeat(200))).toBe('allowed');
  });

  it('takes dots and brackets as themselves', () => {
    expect(verdict({ deny: ['a.c'] }, 'abc')).toBe('allowed');
    expect(verdict({ deny: ['[a*'] }, '[abc')).toBe('refused');
  });
});
