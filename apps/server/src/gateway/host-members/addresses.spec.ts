import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { isPublicAddress } from './addresses.js';

describe('an address', () => {
  it.each([
    '8.8.8.8',
    '1.1.1.1',
    '172.32.0.1',
    '100.128.0.1',
    '2606:4700:4700::1111',
    '2a00:1450:4001:80b::200e',
    '::ffff:8.8.8.8',
    '64:ff9b::808:808',
  ])('of the public internet may be reached: %s', (address) => {
    expect(isPublicAddress(address)).toBe(true);
  });

  it.each([
    ['loopback', ['127.0.0.1', '127.255.255.254', '::1']],
    ['unspecified', ['0.0.0.0', '0.1.2.3', '::']],
    ['private', ['10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.0.1', 'fc00::1', 'fd12:3456::1', 'fec0::1']],
    ['link-local, and the metadata of clouds', ['169.254.169.254', 'fe80::1', 'fe80::1%eth0', 'fd00:ec2::254']],
    ['shared by a carrier', ['100.64.0.1', '100.127.255.255', '100.100.100.200']],
    [
      'for documentation, tests and protocols',
      ['192.0.2.1', '198.18.0.1', '198.51.100.1', '203.0.113.1', '192.0.0.1', '2001:db8::1', '100::1'],
    ],
    ['multicast, broadcast or reserved', ['224.0.0.1', '255.255.255.255', '240.0.0.1', 'ff02::1']],
    [
      'a private IPv4 that IPv6 stands for',
      [
        '::ffff:127.0.0.1',
        '::ffff:10.0.0.1',
        '::ffff:a9fe:a9fe',
        '64:ff9b::7f00:1',
        '64:ff9b::a00:1',
        '64:ff9b::a9fe:a9fe',
      ],
    ],
    [
      'one that hides an IPv4',
      ['::127.0.0.1', '::7f00:1', '2002:7f00:1::', '2001:0:7f00:1::1', '64:ff9b:1::7f00:1', '::ffff:0:127.0.0.1'],
    ],
    ['none', ['', 'localhost', 'example.org', '1.2.3.4.5', '::g', '[::1]']],
  ])('is not public when it is %s', (_, addresses) => {
    expect(addresses.filter(isPublicAddress)).toEqual([]);
  });

  it('that IPv6 maps or translates is as public as its IPv4', () => {
    fc.assert(
      fc.property(fc.ipV4(), (address) => {
        const hex = address
          .split('.')
          .map((part) => Number(part).toString(16).padStart(2, '0'))
          .join('')
          .replace(/^(.{4})/u, '$1:');
        expect(isPublicAddress(`::ffff:${hex}`)).toBe(isPublicAddress(address));
        expect(isPublicAddress(`64:ff9b::${hex}`)).toBe(isPublicAddress(address));
      }),
    );
  });
});
