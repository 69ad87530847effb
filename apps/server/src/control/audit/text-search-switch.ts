import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, Problem, queryPointer, type Caller, type ServerConfig } from '#platform';

/** Whether texts may be searched: by this installation, and by this key. */
@Injectable()
export class TextSearchSwitch {
  constructor(@Inject(CONFIG) private readonly config: ServerConfig) {}

  /** Throws 400 where the search is switched off, 403 for a key that may not see content. */
  check(caller: Caller): void {
    if (!this.config.textSearch) {
      throw new Problem(400, 'text_search_off', 'Searching texts is switched off here (HOOKLEDGER_TEXT_SEARCH).', [
        { pointer: queryPointer('text'), reason: 'not available' },
      ]);
    }
    if (caller.content !== 'full') {
      throw new Problem(403, 'content_hidden', 'Searching texts needs a key with `content: full`.');
    }
  }
}
