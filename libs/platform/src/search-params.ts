/** One parameter as it was sent; `value` is null when it is not percent-encoded UTF-8. */
export interface SearchParam {
  readonly name: string;
  readonly value: string | null;
}

/** The search part of a request's URL, without `?`. */
export const searchOf = (url: string): string => {
  const mark = url.indexOf('?');
  return mark === -1 ? '' : url.slice(mark + 1);
};

/**
 * The parameters of a search part. `URLSearchParams` puts U+FFFD, or the text as it stands, where the encoding is
 * wrong, and would answer another question than the one asked; here such a name or value is told (api.md: nothing is
 * ignored in silence). `+` is a blank, as forms send it.
 */
export const paramsOf = (search: string): readonly SearchParam[] =>
  search
    .split('&')
    .filter((part) => part !== '')
    .map((part) => {
      const mark = part.indexOf('=');
      const rawName = mark === -1 ? part : part.slice(0, mark);
      const name = decode(rawName);
      const value = decode(mark === -1 ? '' : part.slice(mark + 1));
      return name === null ? { name: rawName, value: null } : { name, value };
    });

const decode = (raw: string): string | null => {
  try {
    return decodeURIComponent(raw.replaceAll('+', ' '));
  } catch {
    return null;
  }
};
