/** Any JSON value. Numbers are doubles; text may hold NUL and lone surrogates. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** A JSON object. */
export type JsonObject = { readonly [key: string]: Json };
