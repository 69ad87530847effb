import { Inject, Injectable, type BeforeApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { Counter, Histogram, type Registry } from 'prom-client';
import type { Sql } from '#event-store';
import type { HostAnswer, HostCallRequest, HostCalls, HostCallScope } from '#firing';
import { CONFIG, errorFacts, LOGGER, METRICS, SQL, type Logger, type ServerConfig } from '#platform';
import { AccountRules } from '../../control/accounts/account-rules.js';
import { SecretValues } from '../../control/plugins/secrets.js';
import { HostLink } from '../host-link/host-link.js';
import { isPublicAddress } from './addresses.js';
import { forgetBreadth, takeBreadth } from './breadth.js';
import { hostFetch } from './host-fetch.js';
import { hostDecide, hostLlm, isNamedHost, type ModelEndpoint } from './model-endpoint.js';
import { outbound } from './outbound.js';

/** Most requests to the outside that one account has under way at one replica. */
const maxOutside = 32;

const forgetMs = 10 * 60_000;

/** Where host members are served: `fetch` by the platform, `llm` and `decide` by the account's endpoint where it has one, the rest by runtimes. */
@Injectable()
export class ServedCalls implements HostCalls, OnModuleInit, BeforeApplicationShutdown {
  private readonly fetches = outbound();
  private readonly models;
  private readonly outside = new Map<string, number>();
  private readonly made: Counter<'member' | 'outcome'>;
  private readonly durations: Histogram<'member'>;
  private timer: NodeJS.Timeout | null = null;

  constructor(
    @Inject(SQL) private readonly sql: Sql,
    @Inject(LOGGER) private readonly logger: Logger,
    @Inject(METRICS) metrics: Registry,
    @Inject(CONFIG) { modelHosts }: Pick<ServerConfig, 'modelHosts'>,
    private readonly rules: AccountRules,
    private readonly secrets: SecretValues,
    private readonly link: HostLink,
  ) {
    this.models = outbound({
      isAllowedAddress: (address, url) => isPublicAddress(address) || isNamedHost(modelHosts, url),
    });
    this.made = new Counter({
      name: 'hookledger_host_calls_total',
      help: 'Host calls that chains of this process made, by member and by what came of them.',
      labelNames: ['member', 'outcome'],
      registers: [metrics],
    });
    this.durations = new Histogram({
      name: 'hookledger_host_call_seconds',
      help: 'Time from a recorded host call to its answer.',
      labelNames: ['member'],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 90],
      registers: [metrics],
    });
  }

  onModuleInit(): void {
    const forget = (): void => void forgetBreadth(this.sql).catch(() => undefined);
    this.timer = setInterval(forget, forgetMs);
    this.timer.unref();
  }

  beforeApplicationShutdown(): void {
    if (this.timer !== null) clearInterval(this.timer);
  }

  serves(account: string, member: string, scope: HostCallScope): boolean {
    if (member === 'fetch') return true;
    return this.asksModel(account, member) || this.link.serves(account, member, scope);
  }

  async call(request: HostCallRequest): Promise<HostAnswer> {
    const { account, member } = request;
    const stop = this.durations.startTimer({ member });
    const answer = await this.answered(request).catch((error: unknown): HostAnswer => {
      this.logger.warn({ account, member, ...errorFacts(error) }, 'a host call failed');
      return { kind: 'error', code: 'failed', message: `host.${member} failed` };
    });
    stop();
    this.made.inc({ member, outcome: outcomeOf(answer) });
    return answer;
  }

  private async answered(request: HostCallRequest): Promise<HostAnswer> {
    const { account, member } = request;
    const settings = this.rules.settings(account);
    if (member === 'fetch') return this.counted(account, () => hostFetch(request, settings, this.fetches));
    if (this.asksModel(account, member)) return this.counted(account, () => this.asked(request));
    const { breadthPerRoot } = settings;
    if (member === 'session.peer.send' && breadthPerRoot !== null) {
      if (!(await takeBreadth(this.sql, account, request.root, breadthPerRoot))) return tooBroad;
    }
    return this.link.call(request);
  }

  private asksModel(account: string, member: string): boolean {
    return (member === 'llm' || member === 'decide') && this.rules.settings(account).modelEndpoint !== null;
  }

  private async asked(request: HostCallRequest): Promise<HostAnswer> {
    const endpoint = await this.endpoint(request.account);
    if (endpoint === null)
      return { kind: 'refused', code: 'no_secret', message: 'the key of the model endpoint is not set' };
    return request.member === 'llm'
      ? hostLlm(request, endpoint, this.models)
      : hostDecide(request, endpoint, this.models);
  }

  /** Null: it names a secret that is not there. */
  private async endpoint(account: string): Promise<ModelEndpoint | null> {
    const { modelEndpoint } = this.rules.settings(account);
    if (modelEndpoint === null) return null;
    const { url, model, apiKey } = modelEndpoint;
    if (apiKey === undefined) return { url, model, apiKey: null };
    const secret = await this.secrets.read(account, apiKey.$secret);
    return secret === null ? null : { url, model, apiKey: secret.value };
  }

  private async counted(account: string, work: () => Promise<HostAnswer>): Promise<HostAnswer> {
    const under = this.outside.get(account) ?? 0;
    if (under >= maxOutside)
      return { kind: 'refused', code: 'too_many_requests', message: 'too many requests are under way' };
    this.outside.set(account, under + 1);
    try {
      return await work();
    } finally {
      const left = (this.outside.get(account) ?? 1) - 1;
      if (left === 0) this.outside.delete(account);
      else this.outside.set(account, left);
    }
  }
}

const tooBroad: HostAnswer = {
  kind: 'refused',
  code: 'breadth_exhausted',
  message: 'no more messages may descend from this event',
};

const outcomeOf = ({ kind }: HostAnswer): string => {
  if (kind === 'value') return 'done';
  return kind === 'error' ? 'failed' : kind;
};
