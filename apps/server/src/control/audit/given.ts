type Given<T> = { readonly [K in keyof T]?: NonNullable<T[K]> };

/** The members that were asked for. */
export const given = <T extends object>(members: T): Given<T> =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null)) as Given<T>;
