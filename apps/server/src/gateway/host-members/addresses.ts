import ipaddr from 'ipaddr.js';

/**
 * Whether an address is one of the public internet. Everything else is refused: loopback, private, link-local, CGNAT,
 * reserved, documentation, multicast; and IPv6 that stands for such an IPv4 (mapped, NAT64), or carries one in a way
 * that nobody can see through (6to4, Teredo, compatible).
 */
export const isPublicAddress = (text: string): boolean => {
  if (!ipaddr.isValid(text)) return false;
  const address = ipaddr.parse(text);
  if (address instanceof ipaddr.IPv4) return address.range() === 'unicast';
  const v6 = address;
  if (text.includes('%')) return false;
  const embedded = embeddedIn(v6);
  if (embedded !== null) return embedded.range() === 'unicast';
  // Global unicast is 2000::/3 and nothing else (RFC 4291 §2.4).
  return (v6.parts[0] ?? 0) >> 13 === 1 && v6.range() === 'unicast';
};

/** The IPv4 that a packet to this address goes to: of a mapped one, and of the well-known NAT64 prefix (RFC 6052). */
const embeddedIn = (address: ipaddr.IPv6): ipaddr.IPv4 | null => {
  if (address.isIPv4MappedAddress()) return address.toIPv4Address();
  if (!address.match(ipaddr.IPv6.parse('64:ff9b::'), 96)) return null;
  return new ipaddr.IPv4(address.toByteArray().slice(12));
};
