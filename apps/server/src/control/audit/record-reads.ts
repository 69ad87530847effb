import {
  Inject,
  Injectable,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
  type OnApplicationShutdown,
  type OnModuleInit,
} from '@nestjs/common';
import { mergeMap, type Observable } from 'rxjs';
import { ReadRecorder } from '#audit';
import type { EventStore } from '#event-store';
import {
  actorOf,
  callerOf,
  errorFacts,
  EVENT_STORE,
  LOGGER,
  SEALING,
  type Logger,
  type PlatformRequest,
} from '#platform';
import type { Sealing } from '#sealing';

const flushEveryMs = 5_000;

/** Writes down who reads the record: as an interceptor for routes, by `note` for streams. */
@Injectable()
export class RecordReads implements NestInterceptor, OnModuleInit, OnApplicationShutdown {
  private readonly recorder: ReadRecorder;
  private timer: NodeJS.Timeout | null = null;
  private flushing: Promise<void> = Promise.resolve();

  constructor(
    @Inject(EVENT_STORE) store: EventStore,
    @Inject(SEALING) private readonly sealing: Sealing,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.recorder = new ReadRecorder(store);
  }

  onModuleInit(): void {
    this.timer = setInterval(() => this.flush('over'), flushEveryMs);
    this.timer.unref();
  }

  async onApplicationShutdown(): Promise<void> {
    if (this.timer !== null) clearInterval(this.timer);
    this.flush('all');
    await this.flushing;
  }

  /** The answer is made, then the read is put on record, then the answer leaves. */
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const request = context.switchToHttp().getRequest<PlatformRequest>();
    return next.handle().pipe(
      mergeMap(async (answer: unknown) => {
        await this.note(request);
        return answer;
      }),
    );
  }

  /** Resolves when the read is on record. */
  async note(request: PlatformRequest): Promise<void> {
    const { account } = request.params as { readonly account: string };
    const caller = callerOf(request);
    const [path = '', search = ''] = request.url.split('?', 2);
    const subject = new URLSearchParams(search).get('dataSubject');
    await this.recorder.note({
      account,
      actor: actorOf(caller),
      path: belowAccount(path),
      content: caller.content,
      dataSubject: subject === null ? null : await this.sealing.searchHash(account, subject),
    });
  }

  private flush(which: 'over' | 'all'): void {
    this.flushing = this.flushing
      .then(() => this.recorder.flush(which))
      .catch((error: unknown) => this.logger.warn(errorFacts(error), 'counts of reads are not written yet'));
  }
}

const belowAccount = (path: string): string => path.replace(/^\/v1\/accounts\/[^/]+/u, '') || '/';
