/** Which way KohakuTerrarium is followed (kohaku.md §12): its reference page, or what its code does. */
export type ProfileName = 'documented' | '2.1';

/** What a profile means, said once: everything else asks these fields and no profile's name. */
export interface Profile {
  readonly name: ProfileName;
  /** `on_load` gets one positional argument, whatever its name. */
  readonly positionalLoad: boolean;
  /** Classes of the prompt `BasePlugin` install, and `get_content` may be async. */
  readonly promptPlugins: boolean;
  /** `pre_subagent_run` gets `job_id`. */
  readonly subagentJobId: boolean;
  /** Votes on termination are taken without a `termination:` block. */
  readonly votesAlways: boolean;
  /** `post_subagent_run` may replace a result with anything. */
  readonly anySubagentResult: boolean;
}

/** The profiles by name; `documented` is what an account has that says nothing. */
export const profiles: { readonly [name in ProfileName]: Profile } = {
  documented: {
    name: 'documented',
    positionalLoad: true,
    promptPlugins: true,
    subagentJobId: true,
    votesAlways: true,
    anySubagentResult: true,
  },
  '2.1': {
    name: '2.1',
    positionalLoad: false,
    promptPlugins: false,
    subagentJobId: false,
    votesAlways: false,
    anySubagentResult: false,
  },
};
