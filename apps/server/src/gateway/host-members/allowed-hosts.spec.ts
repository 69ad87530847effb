import { describe, expect, it } from '@jest/globals';
import { hostsOf, mayReach } from './allowed-hosts.js';

const reaches = (hosts: readonly string[], url: string): boolean => mayReach(hosts, new URL(url));

describe('a list of hosts', () => {
  it('lets through the host itself, on the ordinary ports', () => {
    expect(reaches(['api.example.org'], 'https://api.example.org/x')).toBe(true);
    expect(reaches(['API.example.org'], 'http://api.EXAMPLE.org.:80/')).toBe(true);
    expect(reaches(['api.example.org'], 'https://api.example.org:8443/')).toBe(false);
    expect(reaches(['api.example.org:8443'], 'https://api.example.org:8443/')).toBe(true);
    expect(reaches(['api.example.org:8443'], 'https://api.example.org/')).toBe(false);
  });

  it('means with a star what is below a host, and not the host', () => {
    expect(reaches(['*.example.org'], 'https://a.b.example.org/')).toBe(true);
    expect(reaches(['*.example.org'], 'https://example.org/')).toBe(false);
    expect(reaches(['*.example.org'], 'https://badexample.org/')).toBe(false);
    expect(reaches(['*.example.org'], 'https://.example.org/')).toBe(false);
  });

  it.each([
    'https://example.org@evil.test/',
    'https://evil.test/example.org',
    'https://example.org.evil.test/',
    'https://evil.test#example.org',
    'https://evil.test?example.org',
    'https://evil.test\\@example.org',
  ])('is not fooled by %s', (url) => {
    expect(reaches(['example.org'], url)).toBe(false);
  });

  it('of a plugin’s own stands in the place of the account’s', () => {
    const settings = { fetchHosts: ['a.test'], pluginFetchHosts: { own: ['b.test'], none: [] } };
    expect(hostsOf(settings, 'other')).toEqual(['a.test']);
    expect(hostsOf(settings, 'own')).toEqual(['b.test']);
    expect(hostsOf(settings, 'none')).toEqual([]);
    expect(hostsOf(settings, '__proto__')).toEqual(['a.test']);
    expect(hostsOf(settings, 'constructor')).toEqual(['a.test']);
  });
});
