/** `HostCalls`: where granted host members are served. */
export const HOST_CALLS = Symbol('HostCalls');
