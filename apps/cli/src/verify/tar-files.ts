import { closeSync, openSync, readSync } from 'node:fs';

/** Where a file stands in a tar. */
export interface TarFile {
  readonly name: string;
  readonly start: number;
  readonly bytes: number;
}

const block = 512;

/**
 * Finds the files of a tar (POSIX ustar and pax) by their headers alone, so that each can be read by itself and as often
 * as need be. Null for what is no tar.
 */
export const filesOfTar = (path: string): readonly TarFile[] | null => {
  const file = openSync(path, 'r');
  try {
    const files: TarFile[] = [];
    let extended: Extended = {};
    for (let at = 0; ;) {
      const header = read(file, at, block);
      if (header.length < block || header.every((byte) => byte === 0)) return at === 0 ? null : files;
      if (!isHeader(header)) return null;
      const bytes = extended.size ?? sizeIn(header);
      const start = at + block;
      const type = String.fromCharCode(header[156] ?? 0);
      if (type === 'x') extended = extendedIn(read(file, start, bytes));
      else if (type === '0' || type === '\0') files.push({ name: extended.path ?? nameIn(header), start, bytes });
      if (type !== 'x') extended = {};
      at = start + Math.ceil(bytes / block) * block;
    }
  } finally {
    closeSync(file);
  }
};

const read = (file: number, at: number, bytes: number): Buffer => {
  const found = Buffer.alloc(Math.min(bytes, 1024 * 1024));
  return found.subarray(0, readSync(file, found, 0, found.length, at));
};

/** The sum of a header's bytes, those of the sum itself taken for spaces. */
const isHeader = (header: Buffer): boolean => {
  let sum = 0;
  header.forEach((byte, at) => {
    sum += at >= 148 && at < 156 ? 32 : byte;
  });
  return sum === Number.parseInt(textIn(header, 148, 8), 8);
};

const sizeIn = (header: Buffer): number => Number.parseInt(textIn(header, 124, 12), 8);

const nameIn = (header: Buffer): string => {
  const prefix = textIn(header, 345, 155);
  return `${prefix === '' ? '' : `${prefix}/`}${textIn(header, 0, 100)}`;
};

const textIn = (header: Buffer, from: number, length: number): string =>
  header
    .toString('utf8', from, from + length)
    .replace(/\0[^]*$/u, '')
    .trim();

interface Extended {
  readonly size?: number;
  readonly path?: string;
}

/** Records of a pax header: `LENGTH KEY=VALUE` and a newline each. */
const extendedIn = (records: Buffer): Extended => {
  const text = records.toString('utf8');
  const size = /^\d+ size=(\d+)$/mu.exec(text)?.[1];
  const path = /^\d+ path=(.+)$/mu.exec(text)?.[1];
  return { ...(size === undefined ? {} : { size: Number(size) }), ...(path === undefined ? {} : { path }) };
};
