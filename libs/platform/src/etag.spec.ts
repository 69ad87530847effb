import { describe, expect, it } from '@jest/globals';
import { etagOf, requireMatch } from './etag.js';

describe('If-Match', () => {
  it.each([undefined, '*', ' * ', '"3"', '"1", "3"', 'W/"2","3"'])('lets %j pass for version 3', (header) => {
    expect(() => requireMatch(header, etagOf(3))).not.toThrow();
  });

  it.each(['"2"', 'W/"3"', '"33"', '"1", "2"'])('refuses %s for version 3 with 412 and the current tag', (header) => {
    expect(() => requireMatch(header, etagOf(3))).toThrow(
      expect.objectContaining({ status: 412, code: 'stale_etag', headers: { etag: '"3"' } }),
    );
  });

  it.each(['3', '', '"3', '"3" "4"', '*, "3"'])('refuses what is no list of tags with 400: %j', (header) => {
    expect(() => requireMatch(header, etagOf(3))).toThrow(expect.objectContaining({ status: 400 }));
  });
});
