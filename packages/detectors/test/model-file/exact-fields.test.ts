/** Every object in the metadata of a model of every detector has exactly the fields that are written. */
import { decodeSafetensors, encodeSafetensors, FormatError } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import { DETECTOR_NAMES, decodeModelFile, encodeModelFile } from '../../src/index.js'
import { CHECKSUM_OFFSET, modelFileChecksum } from '../../src/model-file/layout.js'
import { type SampleOptions, sampleModel, summaryModel } from './sample.js'

type Json = Record<string, unknown>

/** Files from before there were these options do not speak of them (docs/model-file.md). */
const MAY_BE_ABSENT = [
  'parameters.supportGuard',
  'parameters.precision',
  'parameters.landmarks',
  'parameters.quantileCompat',
  'parameters.quantileRows',
  'parameters.components',
  'parameters.start.clusterSearchRows',
  'parameters.start.mixtureStart',
]

const variants: [string, SampleOptions, boolean | 'summaries'][] = [
  ...DETECTOR_NAMES.map((detector): [string, SampleOptions, boolean] => [detector, { detector }, true]),
  [
    'ensemble of summaries',
    { detector: 'ensemble', members: ['hbos', 'kde', 'nearest', 'pca'] },
    'summaries',
  ],
  ['ocsvm of summaries', { detector: 'ocsvm' }, 'summaries'],
  ['ocsvm, linear, of bare rows', { detector: 'ocsvm', kernel: 'linear' }, false],
  ['gmm, tied', { detector: 'gmm', covariance: 'tied' }, true],
  ['oc-kjl, unguarded', { detector: 'oc-kjl', supportGuard: false }, true],
]

/** Paths of all objects in a value, '' for itself. */
function objectPaths(value: unknown, path: readonly string[] = []): (readonly string[])[] {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return []
  return [path, ...Object.entries(value).flatMap(([key, inner]) => objectPaths(inner, [...path, key]))]
}

function objectAt(value: Json, path: readonly string[]): Json {
  return path.reduce((at, key) => at[key] as Json, value)
}

describe.each(variants)('the metadata of %s', (_, options, flows) => {
  const model = flows === 'summaries' ? summaryModel(options) : sampleModel(options, flows)
  const file = decodeSafetensors(encodeModelFile(model))
  const entries = [...file.metadata].flatMap(([key, text]): [string, Json][] => {
    const json: unknown = text.startsWith('{') ? JSON.parse(text) : null
    return json === null ? [] : [[key, json as Json]]
  })

  /** What reading says of the file with `text` in place of a piece of metadata; null when it is read. */
  function refusal(key: string, text: string): FormatError | null {
    const forged = encodeSafetensors({ ...file, metadata: new Map([...file.metadata, [key, text]]) })
    forged.set(Buffer.from(modelFileChecksum(forged)), CHECKSUM_OFFSET)
    try {
      decodeModelFile(forged)
      return null
    } catch (error) {
      if (error instanceof FormatError) return error
      throw error
    }
  }

  /** With the object at `path` made anew from its fields. */
  function remade(json: Json, path: readonly string[], make: (fields: [string, unknown][]) => Json): string {
    const copy = structuredClone(json)
    if (path.length === 0) return JSON.stringify(make(Object.entries(copy)))
    const parent = objectAt(copy, path.slice(0, -1))
    const key = path[path.length - 1]!
    parent[key] = make(Object.entries(parent[key] as Json))
    return JSON.stringify(copy)
  }

  const objects = entries.flatMap(([key, json]) =>
    objectPaths(json).map((path): [string, string, Json, readonly string[]] => [
      [key, ...path].join('.'),
      key,
      json,
      path,
    ]),
  )

  it.each(objects)('has no other field in %s', (_, key, json, path) => {
    for (const other of ['zz', '__proto__', 'toString', 'kind\u001b[2J']) {
      for (const value of [1, null, { m: 5, kind: 'kjl' }]) {
        // fromEntries defines: `__proto__` becomes a field
        const error = refusal(
          key,
          remade(json, path, (f) => Object.fromEntries([...f, [other, value]])),
        )
        expect(error?.message).toContain(other.split('\u001b')[0])
        expect(error?.field).toBeTypeOf('string')
        expect(error?.offsetBytes).toBeGreaterThanOrEqual(8)
      }
    }
  })

  it.each(objects)('lacks no field of %s, under no other name', (name, key, json, path) => {
    for (const field of Object.keys(objectAt(json, path))) {
      const without = refusal(
        key,
        remade(json, path, (f) => Object.fromEntries(f.filter(([k]) => k !== field))),
      )
      if (!MAY_BE_ABSENT.includes(`${name}.${field}`)) expect(without?.message, field).toContain(field)
      expect(without?.message ?? '').not.toMatch(/undefined/)
      const renamed = refusal(
        key,
        remade(json, path, (f) => Object.fromEntries(f.map(([k, v]) => [k === field ? `${k}0` : k, v]))),
      )
      expect(renamed?.message, field).toContain(field)
    }
  })

  it.each(objects)('is refused in words for values of any type in %s', (_, key, json, path) => {
    for (const field of Object.keys(objectAt(json, path))) {
      for (const value of [{ toString: 1, valueOf: 1 }, [{ toString: 1, valueOf: 1 }], 'zz\u001b', -1.5]) {
        const error = refusal(
          key,
          remade(json, path, (f) => Object.fromEntries(f.map(([k, v]) => [k, k === field ? value : v]))),
        )
        if (typeof value === 'object') expect(error?.field, field).toBeTypeOf('string')
        expect(error?.message ?? '').not.toContain('\u001b')
      }
    }
  })
})
