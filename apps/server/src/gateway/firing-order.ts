import { IsString } from 'class-validator';
import { approvalModes, dialectOf, type ApprovalMode, type Dialect, type Opening } from '#dialects';
import {
  AbsentOrNull,
  escapePointer,
  isId,
  IsInstant,
  IsWireId,
  Problem,
  readDto,
  readInstant,
  type FieldFault,
} from '#platform';
import type { Json, JsonObject } from '#record';

/** What a firing says beside the hook's own arguments. A field that is null is a field that is not given. */
export class FiringEnvelope {
  @AbsentOrNull() @IsWireId() turnId: string | null = null;
  @AbsentOrNull() @IsWireId() sessionId: string | null = null;
  @AbsentOrNull() @IsWireId() agentId: string | null = null;
  @AbsentOrNull() @IsWireId() operationId: string | null = null;
  @AbsentOrNull() @IsWireId() correlationId: string | null = null;
  @AbsentOrNull() @IsInstant() occurredAt: string | null = null;
  /** Token of the host call that led to this operation. */
  @AbsentOrNull() @IsString() cause: string | null = null;
  /** Token of an earlier answer. */
  @AbsentOrNull() @IsString() lineage: string | null = null;
  @AbsentOrNull() @IsWireId() chainOf: string | null = null;
  @AbsentOrNull() @IsWireId() dataSubject: string | null = null;
}

/** A firing that fits: its envelope, and its arguments as the catalogue checked them. */
export interface FiringOrder {
  readonly dialect: Dialect;
  readonly hook: string;
  readonly envelope: Readonly<FiringEnvelope>;
  readonly opening: Extract<Opening, { kind: 'opened' }>;
  /** How approvals are dealt with; null: as the dialect says. */
  readonly approvalMode: ApprovalMode | null;
}

/** The dialect of a hook. Throws 404 for one that is not there, or has no such hook. */
export const knownDialect = (name: string, hook: string): Dialect => {
  const dialect = dialectOf(name);
  if (dialect === undefined) throw new Problem(404, 'unknown_dialect', 'There is no such dialect.');
  if (!dialect.entries.has(hook)) throw new Problem(404, 'unknown_hook', `The dialect ${name} has no such hook.`);
  return dialect;
};

const envelopeFields = new Set(Object.keys(new FiringEnvelope()));

/**
 * Checks a firing's body against the envelope and the hook's catalogue entry. Throws 422 with every faulty field; the
 * hook's own arguments are read by the dialect and never pass through a transformer. `profile` is the account's, where
 * the dialect has profiles; a body may name another.
 */
export const readOrder = (base: Dialect, hook: string, body: unknown, profile: string | null = null): FiringOrder => {
  const parts = split(body);
  const dialect = profiled(base, hook, parts.own.profile ?? profile);
  const faults: FieldFault[] = Object.keys(parts.own)
    .filter((key) => !dialect.ownFields.includes(key))
    .map((key) => ({ pointer: `/${escapePointer(key)}`, reason: unknownField(dialect) }));
  const envelope = envelopeOf(parts.envelope, faults);
  const approvalMode = modeIn(parts.own.approvalMode ?? null, faults);
  const opening = dialect.open(hook, parts.own, envelope);
  if (opening.kind === 'refused') throw misfit([...faults, ...opening.faults]);
  if (faults.length > 0) throw misfit(faults);
  return { dialect, hook, envelope, opening, approvalMode };
};

/** The dialect as the named profile has it. Throws 422 for a profile that is none, 404 for a hook that it does not have. */
const profiled = (base: Dialect, hook: string, profile: Json): Dialect => {
  if (base.profiles === undefined) return base;
  if (profile === null) return base;
  const dialect = typeof profile === 'string' ? base.profiles.get(profile) : undefined;
  if (dialect === undefined) {
    throw misfit([{ pointer: '/profile', reason: `give one of ${[...base.profiles.keys()].join(', ')}` }]);
  }
  if (dialect.entries.has(hook)) return dialect;
  throw new Problem(404, 'unknown_hook', `That profile of ${base.name} has no hook ${hook}.`);
};

const modeIn = (mode: Json, faults: FieldFault[]): ApprovalMode | null => {
  const known = approvalModes.find((name) => name === mode);
  if (mode !== null && known === undefined) {
    faults.push({ pointer: '/approvalMode', reason: `give one of ${approvalModes.join(', ')}` });
  }
  return known ?? null;
};

const split = (body: unknown): { readonly envelope: JsonObject; readonly own: JsonObject } => {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw misfit([{ pointer: '', reason: 'must be a JSON object' }]);
  }
  const entries = Object.entries(body as { readonly [key: string]: Json });
  // fromEntries defines own keys, so `__proto__` stays a key, and an unknown one.
  return {
    envelope: Object.fromEntries(entries.filter(([key]) => envelopeFields.has(key))),
    own: Object.fromEntries(entries.filter(([key]) => !envelopeFields.has(key))),
  };
};

type Look = (text: string) => boolean;

const looks: { readonly [K in keyof FiringEnvelope]: Look } = {
  turnId: isId,
  sessionId: isId,
  agentId: isId,
  operationId: isId,
  correlationId: isId,
  occurredAt: (text) => 'time' in readInstant(text),
  cause: () => true,
  lineage: () => true,
  chainOf: isId,
  dataSubject: isId,
};

/**
 * Whether an envelope fits, at a look: what its decorators say, in a hundredth of their time, since every firing has
 * one. Where it does not, class-validator says what is wrong.
 */
export const fitsAtALook = (given: JsonObject): boolean =>
  Object.entries(given).every(
    ([field, value]) => value === null || (typeof value === 'string' && looks[field as keyof FiringEnvelope](value)),
  );

const envelopeOf = (given: JsonObject, faults: FieldFault[]): FiringEnvelope => {
  if (fitsAtALook(given)) return Object.assign(new FiringEnvelope(), given);
  try {
    return readDto(FiringEnvelope, given);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    faults.push(...error.errors);
    return new FiringEnvelope();
  }
};

const unknownField = ({ ownFields }: Dialect): string =>
  `unknown field; known are ${[...ownFields, ...envelopeFields].join(', ')}`;

const misfit = (faults: readonly FieldFault[]): Problem =>
  new Problem(422, 'invalid_arguments', 'The firing does not fit the hook; nothing was run.', faults);
