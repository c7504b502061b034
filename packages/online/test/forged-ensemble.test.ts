/** A file of an ensemble with one field changed, by somebody who can compute a checksum: it is refused by that field's name, or
 * everything that is made of the model stays a number. */
import {
  createRng,
  decodeSafetensors,
  encodeSafetensors,
  FormatError,
  type Matrix,
  matrixOf,
  OddFlowError,
  type Safetensors,
  type Tensor,
} from '@oddflow/core'
import {
  calibrateGroups,
  checkParameters,
  createExplainer,
  createGroups,
  type DetectorOptions,
  decodeModelFile,
  encodeModelFile,
  fitHoldingOut,
  isNovel,
  rememberedRows,
  type SavedModel,
  thresholdOfHeldOut,
} from '@oddflow/detectors'
import { describe, expect, it } from 'vitest'
import { updateEnsemble } from '../src/index.js'
import { CHECKSUM_OFFSET, modelFileChecksum, scores } from './detectors.js'

const SERVICES = [1_700_053, 600_443, 608_883]

/** Small, so that each of its fields can be changed: D = 4, of which the last is a service where there are any. */
function rowsOf(seed: number, n: number, hasServices: boolean): Matrix {
  const rng = createRng(seed)
  const data = Float64Array.from({ length: 4 * n }, (_, at) => {
    const kind = Math.floor(at / 4) % 3
    return at % 4 === 3 && hasServices ? SERVICES[kind]! : 3 * kind + rng.nextNormal()
  })
  return matrixOf(n, 4, data)
}

function trained(options: DetectorOptions, hasServices: boolean): SavedModel {
  const rows = rowsOf(1, 90, hasServices)
  const inputs = Uint32Array.from({ length: rows.rows }, (_, i) => i % 3)
  const { model, heldOut } = fitHoldingOut(rows, checkParameters(options), createRng(2), {
    ...(hasServices ? { categoryColumn: 3, minimumScale: 0.1 } : {}),
    inputs,
  })
  return {
    detector: model,
    contract: { featureSet: 'rows', featureSetVersion: 1, dimension: 4, scaler: 'none' },
    threshold: thresholdOfHeldOut(heldOut!, 0.05),
    onePacketRule: null,
    provenance: { oddflowVersion: '0.1.0', seed: 2, dataSha256: '0123456789abcdef'.repeat(4), rows: 90 },
    groups: calibrateGroups({ scores: heldOut!.scores, capture: inputs, device: inputs }),
  }
}

type Change = readonly [what: string, forge: () => Uint8Array]

function sealed(file: Safetensors): Uint8Array {
  const bytes = encodeSafetensors(file)
  bytes.set(Buffer.from(modelFileChecksum(bytes)), CHECKSUM_OFFSET)
  return bytes
}

const NUMBERS = [
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.MAX_VALUE,
  -1e308,
  1e200,
  1e9,
  1,
  0,
  -0,
  -1,
  1e-9,
  5e-324,
]

/** One number of a tensor changed, or exchanged with its neighbour; or a tensor of another shape. */
function tensorChanges(file: Safetensors, name: string, { dtype, shape, data }: Tensor): Change[] {
  const withTensor = (tensor: unknown): Uint8Array =>
    sealed({ ...file, tensors: new Map([...file.tensors, [name, tensor as Tensor]]) })
  const changes: Change[] = []
  for (let at = 0; at < data.length; at++) {
    const change = (what: string, edit: (copy: Tensor['data']) => void): void => {
      changes.push([
        `${name}[${at}] ${what}`,
        () => {
          const copy = data.slice()
          edit(copy)
          return withTensor({ dtype, shape, data: copy })
        },
      ])
    }
    for (const value of NUMBERS) {
      change(`= ${value}`, (copy) => {
        copy[at] = value
      })
    }
    if (at === 0) continue
    change('exchanged', (copy) => {
      copy[at] = data[at - 1]!
      copy[at - 1] = data[at]!
    })
  }
  for (const [axis, length] of shape.entries()) {
    for (const other of new Set([0, 1, Math.max(0, length - 1), length + 1, 2 * length])) {
      if (other === length) continue
      const reshaped = shape.map((size, i) => (i === axis ? other : size))
      const count = reshaped.reduce((product, size) => product * size, 1)
      changes.push([
        `${name} of ${reshaped.join(' × ')}`,
        () => {
          const longer = data.slice(0, 0).constructor as new (length: number) => Tensor['data']
          const copy = new longer(count)
          copy.set(data.subarray(0, Math.min(count, data.length)) as never)
          return withTensor({ dtype, shape: reshaped, data: copy })
        },
      ])
    }
  }
  changes.push([
    `no ${name}`,
    () => sealed({ ...file, tensors: new Map([...file.tensors].filter(([key]) => key !== name)) }),
  ])
  return changes
}

const VALUES: readonly unknown[] = [...NUMBERS.filter(Number.isFinite), null, 'x', [], {}, true, [1, 2, 3]]

/** One value somewhere in the metadata `key` changed, or taken out. */
function metadataChanges(file: Safetensors, key: string): Change[] {
  const text = file.metadata.get(key)!
  const changes: Change[] = []
  const visit = (value: unknown, path: readonly (string | number)[]): void => {
    const forged =
      (replace: (parent: Record<string | number, unknown>, last: string | number) => void) => () => {
        const copy = JSON.parse(text) as Record<string | number, unknown>
        const parent = path
          .slice(0, -1)
          .reduce((at, step) => at[step] as Record<string | number, unknown>, copy)
        replace(parent, path[path.length - 1]!)
        return sealed({ ...file, metadata: new Map([...file.metadata, [key, JSON.stringify(copy)]]) })
      }
    if (path.length > 0) {
      for (const other of VALUES) {
        changes.push([
          `${key}.${path.join('.')} = ${JSON.stringify(other)}`,
          forged((parent, last) => {
            parent[last] = other
          }),
        ])
      }
      changes.push([
        `no ${key}.${path.join('.')}`,
        forged((parent, last) => {
          if (Array.isArray(parent)) parent.splice(last as number, 1)
          else delete parent[last]
        }),
      ])
    }
    if (value === null || typeof value !== 'object') return
    for (const [step, inner] of Object.entries(value)) visit(inner, [...path, step])
  }
  visit(JSON.parse(text), [])
  return changes
}

const finiteOnly = (values: Iterable<number>): boolean => {
  for (const value of values) if (!Number.isFinite(value)) return false
  return true
}

/** Everything that programs make of a model that was read. */
function use(saved: SavedModel, hasServices: boolean): void {
  const { detector, threshold, groups } = saved
  const rows = rowsOf(7, 12, hasServices)
  // far away on one side, on the other, of a service unknown, and in one column alone
  rows.data.fill(Number.MAX_VALUE, 0, 4)
  rows.data.fill(-Number.MAX_VALUE, 4, 8)
  rows.data[11] = 1_700_123
  rows.data[12] = 1e200
  const found = scores(detector, rows)
  expect(finiteOnly(found)).toBe(true)
  const explainer = createExplainer(detector)
  const group = groups?.capture == null ? null : createGroups(groups, 'capture')()
  found.forEach((score, i) => {
    expect(isNovel(score, threshold)).toBeTypeOf('boolean')
    group?.add(score)
    const row = rows.data.slice(4 * i, 4 * i + 4)
    const explained = explainer?.explain(row, score, threshold.value)
    if (explained === undefined) return
    expect(finiteOnly([explained.explainedScore, ...explained.nearestRow])).toBe(true)
    const { nats, usual } = explained.columns!
    expect(finiteOnly([...nats, ...(usual?.low ?? []), ...(usual?.high ?? [])])).toBe(true)
    for (const share of explained.features) expect(finiteOnly([share.nearest, share.gain])).toBe(true)
  })
  expect(finiteOnly([group?.verdict().score ?? 0])).toBe(true)
  const remembered = rememberedRows(detector)
  if (remembered !== null) {
    expect(finiteOnly(remembered.data)).toBe(true)
    expect(finiteOnly(scores(detector, remembered))).toBe(true)
  }
  const given = {
    rows: rowsOf(8, 30, hasServices),
    inputs: new Uint32Array(30),
    dataSha256: 'f'.repeat(64),
  }
  let updated: SavedModel
  try {
    updated = updateEnsemble(saved, given).saved
  } catch (error) {
    expect(error).toBeInstanceOf(OddFlowError)
    return
  }
  const again = decodeModelFile(encodeModelFile(updated))
  expect(finiteOnly(scores(again.detector, rows))).toBe(true)
}

describe.each<[string, DetectorOptions, boolean]>([
  ['of summaries', { detector: 'ensemble', m: 16, bins: 3 }, true],
  ['of plain rows', { detector: 'ensemble', m: 16, bins: 3 }, false],
  ['of other detectors', { detector: 'ensemble', members: ['gmm', 'pca'] }, false],
])('an ensemble %s', (_, options, hasServices) => {
  const fresh = trained(options, hasServices)
  const updates = {
    count: 2,
    rows: 40,
    last: { rows: 10, oddRows: 1, novelBefore: 3, dataSha256: 'f'.repeat(64) },
  }
  const file = decodeSafetensors(encodeModelFile({ ...fresh, provenance: { ...fresh.provenance, updates } }))
  const tensors = [...file.tensors].filter(([name]) => /^(ensemble|groups)\./.test(name))
  const changes = [
    ...tensors.flatMap(([name, tensor]) => tensorChanges(file, name, tensor)),
    ...['ensemble', 'groups', 'provenance', 'scaler', 'threshold']
      .filter((key) => file.metadata.has(key))
      .flatMap((key) => metadataChanges(file, key)),
  ]

  it('is as it was where nothing is changed', () => {
    expect(() => use(decodeModelFile(sealed(file)), hasServices)).not.toThrow()
  })

  it('with one field changed is refused by name, or stays in the range of numbers', {
    timeout: 120_000,
  }, () => {
    let refused = 0
    const chosen = sampleOf(changes)
    for (const [what, forge] of chosen) {
      let saved: SavedModel
      try {
        saved = decodeModelFile(forge())
      } catch (error) {
        expect(error, what).toBeInstanceOf(FormatError)
        const { field, message, offsetBytes } = error as FormatError
        expect(field, what).toMatch(/^(ensemble|groups|provenance|scaler|threshold|parameters|safetensors)/)
        expect(message, what).toMatch(/expected|lacks|missing|no such/)
        expect(offsetBytes, what).toBeTypeOf('number')
        refused++
        continue
      }
      try {
        use(saved, hasServices)
      } catch (error) {
        throw new Error(`${what}: ${(error as Error).message}`)
      }
    }
    expect(refused).toBeGreaterThan(chosen.length / 10)
  })
})
