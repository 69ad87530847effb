import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { IsBoolean, IsIn, IsInt, Min, ValidateBy, type ValidationOptions } from 'class-validator';
import { knownPermissions } from '#dialects';
import { Absent, AbsentOrNull, isId, IsJsonObject, IsPathName, IsText, IsWireId } from '#platform';
import { maxSourceBytes, type PluginFault, type PluginSource } from '#plugins';
import type { JsonObject, PluginSnapshot } from '#record';

const check = (name: string, valid: (value: unknown) => boolean, wanted: string, options?: ValidationOptions) =>
  ValidateBy({ name, validator: { validate: valid, defaultMessage: () => `must be ${wanted}` } }, options);

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Several files: `{ "path": "text" }`, paths relative and without `..`. */
const IsFiles = (): PropertyDecorator =>
  check(
    'isFiles',
    (value) =>
      isObject(value) &&
      Object.keys(value).length > 0 &&
      Object.keys(value).length <= maxFiles &&
      Object.entries(value).every(([path, text]) => isFilePath(path) && typeof text === 'string'),
    `an object of 1 to ${String(maxFiles)} files, { "path": "text" }, with relative paths that stay inside`,
  );

const maxFiles = 500;

const isFilePath = (path: string): boolean =>
  isId(path) &&
  !path.startsWith('/') &&
  !path.includes('\\') &&
  path.split('/').every((part) => part !== '' && part !== '.' && part !== '..');

/** `{ "timeoutMs"?, "hooks"?: { "hook": ms } }`; the bounds are the dialect's and judged with it. */
const IsTimeouts = (): PropertyDecorator =>
  check(
    'isTimeouts',
    (value) =>
      isObject(value) &&
      Object.keys(value).every((key) => key === 'timeoutMs' || key === 'hooks') &&
      (value.timeoutMs === undefined || typeof value.timeoutMs === 'number') &&
      (value.hooks === undefined ||
        (isObject(value.hooks) && Object.values(value.hooks).every((ms) => typeof ms === 'number'))),
    '{ "timeoutMs"?: milliseconds, "hooks"?: { "hook name": milliseconds } }',
  );

const IsPermissions = (): PropertyDecorator =>
  check(
    'isPermissions',
    (value) => Array.isArray(value) && value.every((item) => knownPermissions.includes(item as string)),
    `a list of ${knownPermissions.join(', ')}`,
  );

const IsPriority = (): PropertyDecorator =>
  check(
    'isPriority',
    (value) => typeof value === 'number' && Number.isFinite(value) && Math.abs(value) <= 1e9,
    'a number from -1000000000 to 1000000000, or null',
  );

/** Why, in words or as a ticket: kept with the event. */
export abstract class ReasonBody {
  @ApiPropertyOptional({ type: String, nullable: true, description: 'A ticket or words; kept with the event.' })
  @AbsentOrNull()
  @IsText(0, 4000)
  reason?: string | null;
}

/** What `PATCH …/plugins/{id}` takes; what it does not name stays as it is. */
export class ChangePluginBody extends ReasonBody {
  @ApiPropertyOptional({ type: Boolean })
  @Absent()
  @IsBoolean()
  enabled?: boolean;

  @ApiPropertyOptional({
    type: Object,
    additionalProperties: true,
    description: '`host.config`; checked by `configSchema`.',
  })
  @Absent()
  @IsJsonObject()
  config?: JsonObject;

  @ApiPropertyOptional({
    type: Number,
    nullable: true,
    description: "Null: the dialect's own. Overrides Kohaku's only.",
  })
  @AbsentOrNull()
  @IsPriority()
  priority?: number | null;

  @ApiPropertyOptional({ enum: ['open', 'closed'] })
  @Absent()
  @IsIn(['open', 'closed'])
  failureMode?: PluginSnapshot['failureMode'];

  @ApiPropertyOptional({ enum: ['enforce', 'observe'] })
  @Absent()
  @IsIn(['enforce', 'observe'])
  mode?: PluginSnapshot['mode'];

  @ApiPropertyOptional({ enum: ['warm', 'fresh'] })
  @Absent()
  @IsIn(['warm', 'fresh'])
  isolation?: PluginSnapshot['isolation'];

  @ApiPropertyOptional({
    type: Object,
    description: "Milliseconds, by hook or for all; omitted: the dialect's own limits.",
    example: { hooks: { sshCommandSending: 2000 } },
  })
  @Absent()
  @IsTimeouts()
  timeouts?: PluginSnapshot['timeouts'];

  @ApiPropertyOptional({
    type: String,
    isArray: true,
    enum: [...knownPermissions],
    description: 'At install omitted: what the source asks for. A list: exactly these.',
  })
  @Absent()
  @IsPermissions()
  permissions?: readonly string[];
}

/** What `POST …/plugins` takes. */
export class InstallPluginBody extends ChangePluginBody {
  @ApiProperty({ type: String, minLength: 1, maxLength: 200 })
  @IsPathName()
  id!: string;

  @ApiPropertyOptional({ type: String, description: 'Default: the id.' })
  @Absent()
  @IsText(1, 200)
  name?: string;

  @ApiPropertyOptional({ type: String, default: '0.0.0' })
  @Absent()
  @IsWireId()
  version?: string;

  @ApiProperty({ enum: ['middleware', 'openclaw', 'kohaku'] })
  @IsIn(['middleware', 'openclaw', 'kohaku'])
  dialect!: PluginSnapshot['dialect'];

  @ApiPropertyOptional({ enum: ['javascript', 'typescript', 'python'], default: 'javascript' })
  @Absent()
  @IsIn(['javascript', 'typescript', 'python'])
  language?: PluginSnapshot['code']['language'];

  @ApiPropertyOptional({ type: String, description: 'One file. Give either this or `files` with `entry`.' })
  @Absent()
  @IsText(1, maxSourceBytes)
  source?: string;

  @ApiPropertyOptional({ type: Object, additionalProperties: { type: 'string' } })
  @Absent()
  @IsFiles()
  files?: { readonly [path: string]: string };

  @ApiPropertyOptional({ type: String, description: 'The file among `files` that is evaluated.' })
  @Absent()
  @IsText(1, 200)
  entry?: string;

  @ApiPropertyOptional({
    type: String,
    description: 'Kohaku: which class is the plugin, where the source has several.',
  })
  @Absent()
  @IsText(1, 200)
  class?: string;

  @ApiPropertyOptional({ type: String, description: 'Kohaku: the name it is registered under. Default: the id.' })
  @Absent()
  @IsPathName()
  pluginName?: string;

  @ApiPropertyOptional({
    type: Object,
    nullable: true,
    additionalProperties: true,
    description: 'JSON Schema of `config`.',
  })
  @AbsentOrNull()
  @IsJsonObject()
  configSchema?: JsonObject | null;
}

/** What `POST …/plugins/{id}/versions` takes. */
export class NewVersionBody extends ReasonBody {
  @ApiProperty({ type: String, minLength: 1, maxLength: 200 })
  @IsWireId()
  version!: string;

  @ApiPropertyOptional({ enum: ['javascript', 'typescript', 'python'], description: 'Default: as it was.' })
  @Absent()
  @IsIn(['javascript', 'typescript', 'python'])
  language?: PluginSnapshot['code']['language'];

  @ApiPropertyOptional({ type: String })
  @Absent()
  @IsText(1, maxSourceBytes)
  source?: string;

  @ApiPropertyOptional({ type: Object, additionalProperties: { type: 'string' } })
  @Absent()
  @IsFiles()
  files?: { readonly [path: string]: string };

  @ApiPropertyOptional({ type: String })
  @Absent()
  @IsText(1, 200)
  entry?: string;

  @ApiPropertyOptional({ type: String, description: 'Kohaku: which class is the plugin. Default: as it was.' })
  @Absent()
  @IsText(1, 200)
  class?: string;

  @ApiPropertyOptional({
    type: String,
    isArray: true,
    enum: [...knownPermissions],
    description:
      'Omitted: what the new source asks for where the grants were what the old one asked for; else they stay.',
  })
  @Absent()
  @IsPermissions()
  permissions?: readonly string[];
}

/** What `POST …/plugins/{id}/rollback` takes. */
export class RollbackBody extends ReasonBody {
  @ApiProperty({ type: Number, minimum: 1 })
  @IsInt()
  @Min(1)
  revision!: number;
}

/** The three fields that say a source. */
export interface SourceFields {
  readonly source?: string;
  readonly files?: { readonly [path: string]: string };
  readonly entry?: string;
}

/** The source that a body gives, or which field is at fault. */
export const sourceOf = (
  body: SourceFields,
):
  | { readonly kind: 'source'; readonly source: PluginSource }
  | { readonly kind: 'faulty'; readonly fault: PluginFault } => {
  const { source, files, entry } = body;
  if (source !== undefined && files !== undefined) return faulty('/files', 'give either `source` or `files`, not both');
  if (source !== undefined) {
    return entry === undefined ? { kind: 'source', source: { source } } : faulty('/entry', 'goes with `files` only');
  }
  if (files === undefined) return faulty('/source', 'is missing: give `source`, or `files` with `entry`');
  if (entry === undefined) return faulty('/entry', 'is missing: name the file that is evaluated');
  if (!Object.hasOwn(files, entry)) return faulty('/entry', 'is not among `files`');
  return { kind: 'source', source: { files, entry } };
};

const faulty = (pointer: string, reason: string) => ({ kind: 'faulty', fault: { pointer, reason } }) as const;

/** Where a body names its source. */
export const sourcePointer = (source: PluginSource): string => ('source' in source ? '/source' : '/files');
