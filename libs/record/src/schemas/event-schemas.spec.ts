import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { eventFaults } from '../../../../test/support/event-faults.js';
import { canonicalJson } from '../canonical.js';
import type { RecordedEvent } from '../event.js';
import { eventTypes } from '../event.js';
import type { JsonObject } from '../json.js';
import { readEvent, schemaVersionOf } from '../versions.js';
import { eventSchemas } from './event-schemas.js';

const goldenFolder = join(process.cwd(), 'libs', 'record', 'golden');
const goldenBytes = (name: string): Buffer => readFileSync(join(goldenFolder, name));

describe('the schemas of events', () => {
  it('say of every type one current version, which is the one that is written', () => {
    for (const type of eventTypes) {
      const versions = eventSchemas().filter((schema) => schema.type === type);
      expect(versions.map(({ version }) => version)).toEqual(versions.map((_, index) => index + 1));
      expect(versions.filter(({ current }) => current).map(({ version }) => version)).toEqual([schemaVersionOf(type)]);
    }
  });

  it('are JSON Schema that a strict validator takes', () => {
    const published = new Ajv2020({ strict: true, strictTypes: false, formats: { uuid: true } });
    for (const { schema } of eventSchemas()) expect(() => published.compile(schema)).not.toThrow();
  });

  it('have a golden file for every version, and no golden file is without its schema', () => {
    const wanted = eventSchemas().map(({ type, version }) => `${type}.v${String(version)}.json`);
    expect(readdirSync(goldenFolder).sort()).toEqual(wanted.sort());
  });

  it.each(eventSchemas().map(({ type, version, schema }) => [`${type}.v${String(version)}.json`, schema] as const))(
    'describe the event that was once stored as %s, wholly, and it can still be read',
    (name, schema) => {
      const bytes = goldenBytes(name);
      const stored = JSON.parse(bytes.toString('utf8')) as RecordedEvent;
      expect(eventFaults(stored)).toEqual([]);
      expect(canonicalJson(stored as unknown as JsonObject)).toBe(bytes.toString('utf8'));
      const data = (schema.properties as JsonObject).data as JsonObject;
      expect(Object.keys(stored.data).sort()).toEqual(Object.keys((data.properties ?? {}) as JsonObject).sort());

      const event = readEvent(bytes);
      const current = eventSchemas().find((each) => each.type === event.type && each.current);
      expect(event.schema).toBe(current?.version);
      expect(eventFaults(event)).toEqual([]);
    },
  );

  it('refuse an event without its data, of another version, or with a value where content must be sealed', () => {
    const golden = JSON.parse(goldenBytes('invocation.closed.v1.json').toString('utf8')) as JsonObject;
    expect(eventFaults(golden)).toEqual([]);
    expect(eventFaults({ ...golden, data: {} })).not.toEqual([]);
    expect(eventFaults({ ...golden, schema: 2 })).not.toEqual([]);
    expect(eventFaults({ ...golden, data: { ...(golden.data as JsonObject), value: 'plain text' } })).not.toEqual([]);
    expect(eventFaults({ ...golden, recordedAt: '2026-03-01T10:00:00.123456Z' })).not.toEqual([]);
  });
});
