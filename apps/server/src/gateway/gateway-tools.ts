/** `HostCalls`: where granted host members are served. */
export const HOST_CALLS = Symbol('HostCalls');

/** `Uint8Array`: signs cause and lineage tokens. */
export const TOKEN_KEY = Symbol('TokenKey');
