import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  ArgumentError,
  decodeSafetensors,
  encodeSafetensors,
  FormatError,
  matrixOf,
  OddFlowError,
  type Safetensors,
  type Tensor,
} from '@oddflow/core'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import {
  DETECTOR_NAMES,
  DETECTORS,
  type DetectorModel,
  decodeModelFile,
  type EmbeddedMixtureModel,
  encodeModelFile,
  modelSpaceNumbers,
  type NearestModel,
  type SavedModel,
  SCALER_NAMES,
} from '../../src/index.js'
import { CHECKSUM_OFFSET, modelFileChecksum } from '../../src/model-file/layout.js'
import { sampleModel, sampleRows, scores, summaryModel, summaryRows } from './sample.js'

const saved = sampleModel({ scaler: 'standard' })
/** The sample's detector, as what it is. */
const sample = saved.detector as EmbeddedMixtureModel
const bytes = encodeModelFile(saved)

function refusal(bad: Uint8Array): FormatError {
  try {
    decodeModelFile(bad)
  } catch (error) {
    if (error instanceof FormatError) return error
    throw error
  }
  throw new Error('it was read')
}

/** The file as somebody would write it who can also compute a checksum. */
function forge(
  change: (file: { tensors: Map<string, Tensor>; metadata: Map<string, string> }) => void,
): Uint8Array {
  const file: Safetensors = decodeSafetensors(bytes)
  const open = { tensors: new Map(file.tensors), metadata: new Map(file.metadata) }
  change(open)
  return seal(encodeSafetensors(open))
}

function seal(forged: Uint8Array): Uint8Array {
  forged.set(Buffer.from(modelFileChecksum(forged)), CHECKSUM_OFFSET)
  return forged
}

/** A tensor of the sample with one number changed. */
function poke(name: string, index: number, value: number): Uint8Array {
  return forge(({ tensors }) => {
    const old = tensors.get(name)!
    const data = Float64Array.from(old.data)
    data[index] = value
    tensors.set(name, { dtype: 'F64', shape: old.shape, data })
  })
}

/** The sample with one piece of JSON changed. */
function edit(key: string, change: (value: Record<string, unknown>) => void): Uint8Array {
  return forge(({ metadata }) => {
    const value = JSON.parse(metadata.get(key)!) as Record<string, unknown>
    change(value)
    metadata.set(key, JSON.stringify(value))
  })
}

describe('a model file', () => {
  const variants = DETECTOR_NAMES.flatMap((detector) =>
    SCALER_NAMES.flatMap((scaler) => [true, false].map((flows) => ({ detector, scaler, flows }))),
  )
  it.each(variants)('brings back the very model: %o', ({ detector, scaler, flows }) => {
    const guard = DETECTORS[detector].options.includes('supportGuard') ? { supportGuard: flows } : {}
    const model = sampleModel({ detector, scaler, ...guard }, flows)
    const file = encodeModelFile(model)
    const back = decodeModelFile(file)
    expect(back).toEqual(model)
    expect(Buffer.from(encodeModelFile(back))).toEqual(Buffer.from(file))
    const fresh = sampleRows(9, 40)
    expect(scores(back.detector, fresh)).toEqual(scores(model.detector, fresh))
  })

  it.each(DETECTOR_NAMES)('brings back a model of rows with a column of names: %s', (detector) => {
    for (const scaler of ['none', 'standard', 'quantile'] as const) {
      const model = summaryModel({ detector, scaler })
      const file = encodeModelFile(model)
      const back = decodeModelFile(file)
      expect(back).toEqual(model)
      expect(back.detector.scaler.categoryColumn).toBe(model.contract.dimension - 1)
      const fresh = summaryRows(9, 40)
      expect(scores(back.detector, fresh)).toEqual(scores(model.detector, fresh))
    }
  })

  it('reads summaries from before services were names, and refuses names in another column', () => {
    const model = summaryModel({ detector: 'nearest' })
    const { categoryColumn: _, ...scaler } = model.detector.scaler
    const { nearestLandmark } = model.detector as NearestModel
    const wider = matrixOf(2, model.contract.dimension, new Float64Array(2 * model.contract.dimension))
    const older = { ...model.detector, scaler, nearestLandmark: { ...nearestLandmark, landmarks: wider } }
    const file = { ...model, detector: older as DetectorModel }
    expect(decodeModelFile(encodeModelFile(file))).toEqual(file)
    const other = { ...model, detector: { ...model.detector, scaler: { ...scaler, categoryColumn: 3 } } }
    expect(() => encodeModelFile(other as SavedModel)).toThrow(
      /scaler.categoryColumn: expected 19 as the contract/,
    )
  })

  it('has the same bytes for the same seed, and whatever the order of keys', () => {
    expect(Buffer.from(encodeModelFile(sampleModel({ scaler: 'standard' })))).toEqual(Buffer.from(bytes))
    const turned = Object.fromEntries(
      Object.entries(saved)
        .reverse()
        .map(([key, value]) => [
          key,
          value !== null && key !== 'detector' ? Object.fromEntries(Object.entries(value).reverse()) : value,
        ]),
    ) as unknown as SavedModel
    expect(Buffer.from(encodeModelFile(turned))).toEqual(Buffer.from(bytes))
  })

  it('opens as unguarded where it was written before there was a guard', () => {
    const older = edit('parameters', (p) => delete p.supportGuard)
    const file = decodeSafetensors(older)
    const tensors = new Map([...file.tensors].filter(([name]) => !name.startsWith('supportGuard.')))
    const opened = decodeModelFile(seal(encodeSafetensors({ tensors, metadata: file.metadata })))
    const parameters = { ...saved.detector.parameters, supportGuard: false }
    expect(opened.detector).toEqual({ ...saved.detector, parameters, supportGuard: null })
  })

  it('holds the numbers that the paper counts as space, and 2D for the scaler', () => {
    const counted = [...decodeSafetensors(bytes).tensors.values()].reduce((n, { data }) => n + data.length, 0)
    expect(counted).toBe(modelSpaceNumbers(saved.detector) + 2 * 3)
  })

  it('says nothing of when, where or by whom', () => {
    const text = Buffer.from(bytes).toString('latin1')
    expect(text).not.toMatch(/\b20\d\d-\d\d|\/home|\/tmp|host/i)
  })
})

describe('forged tensors', () => {
  const variants = [
    ['hbos', { detector: 'hbos' }],
    ['ensemble', { detector: 'ensemble' }],
    ['ensemble of others', { detector: 'ensemble', members: ['oc-kjl', 'iforest', 'hbos'] }],
  ] as const
  it.each(variants)('of %s are refused by field, or score finitely', (_, options) => {
    const file = encodeModelFile(summaryModel(options))
    const rows = summaryRows(4, 6)
    rows.data.fill(Number.MAX_VALUE, 0, 19)
    let refused = 0
    for (const [name, tensor] of decodeSafetensors(file).tensors) {
      const forgeries: Tensor['data'][] = []
      for (const value of [Number.NaN, Number.POSITIVE_INFINITY, -1, 0, 1e300, 4_000_000_000]) {
        for (const at of [0, tensor.data.length - 1]) {
          const data = tensor.data.slice()
          data[at] = value
          forgeries.push(data)
        }
      }
      const shapes = [...forgeries.map((data) => ({ data, shape: tensor.shape }))]
      // a row or a number fewer
      const fewer = [tensor.shape[0]! - 1, ...tensor.shape.slice(1)]
      const left = fewer.reduce((product, length) => product * length, 1)
      shapes.push({ data: tensor.data.slice(0, left), shape: fewer })
      shapes.push({ data: tensor.data, shape: [1, ...tensor.shape] })
      for (const { data, shape } of shapes) {
        const open = decodeSafetensors(file)
        const tensors = new Map(open.tensors)
        tensors.set(name, { dtype: tensor.dtype, shape, data } as Tensor)
        try {
          const back = decodeModelFile(seal(encodeSafetensors({ tensors, metadata: open.metadata })))
          for (const s of scores(back.detector, rows)) expect(Number.isFinite(s), name).toBe(true)
        } catch (error) {
          expect(error, name).toBeInstanceOf(FormatError)
          expect((error as FormatError).field, name).toMatch(/^(ensemble|histograms|fitReport|scaler)/)
          refused++
        }
      }
    }
    expect(refused).toBeGreaterThan(20)
  })

  const extremes = [Number.MAX_VALUE, -Number.MAX_VALUE, 1e300, -1e300, 1e154, 1e-300, 5e-324, 1, 0, -1]
  it.each(DETECTOR_NAMES)('of %s with several numbers changed are refused, or score finitely', (detector) => {
    const guards = (DETECTORS[detector].options as string[]).includes('supportGuard') ? [true, false] : [null]
    const cases = guards.flatMap((supportGuard) => {
      const options = { detector, ...(supportGuard === null ? {} : { supportGuard }) }
      return [
        { file: encodeModelFile(sampleModel({ ...options, scaler: 'standard' })), rows: sampleRows(4, 30) },
        { file: encodeModelFile(summaryModel(options)), rows: summaryRows(4, 16) },
      ]
    })
    for (const { rows } of cases) {
      for (const [i, extreme] of extremes.entries()) {
        rows.data.fill(extreme, i * rows.cols, (i + 1) * rows.cols - 1)
      }
    }
    const change = fc.record({
      tensor: fc.nat(),
      at: fc.nat(),
      value: fc.oneof(fc.constantFrom(...extremes), fc.double({ noNaN: true, noDefaultInfinity: true })),
    })
    let read = 0
    fc.assert(
      fc.property(fc.nat(), fc.array(change, { minLength: 1, maxLength: 4 }), (which, changes) => {
        const { file, rows } = cases[which % cases.length]!
        const { metadata, tensors } = decodeSafetensors(file)
        const changed = new Map(
          [...tensors].map(([name, tensor]) => [name, { ...tensor, data: tensor.data.slice() }]),
        )
        for (const { tensor, at, value } of changes) {
          const { data } = [...changed.values()][tensor % changed.size]!
          data[at % data.length] = value
        }
        const forged = seal(encodeSafetensors({ metadata, tensors: changed as Map<string, Tensor> }))
        let detectorRead: DetectorModel
        try {
          detectorRead = decodeModelFile(forged).detector
        } catch (error) {
          expect(error).toBeInstanceOf(FormatError)
          return
        }
        read++
        expect(scores(detectorRead, rows).every(Number.isFinite)).toBe(true)
      }),
      { numRuns: sampleCount(2000) },
    )
    expect(read).toBeGreaterThan(20)
  })
})

describe('damage', () => {
  it('is refused at every byte, whatever it is changed to', { timeout: 120_000 }, () => {
    for (let i = 0; i < bytes.length; i++) {
      for (const mask of [0x01, 0x20, 0x80, 0xff]) {
        const bad = bytes.slice()
        bad[i]! ^= mask
        const error = refusal(bad)
        expect(error.field, `byte ${i}`).toBeTypeOf('string')
        expect(error.offsetBytes, `byte ${i}`).toBeTypeOf('number')
      }
    }
  })

  it('is refused at every length, shorter or longer', () => {
    for (let length = 0; length < bytes.length; length++) {
      const error = refusal(bytes.subarray(0, length))
      expect(error.field).toBeTypeOf('string')
      expect(error.offsetBytes).toBeTypeOf('number')
    }
    refusal(Buffer.concat([bytes, Buffer.of(0)]))
    refusal(Buffer.concat([bytes, bytes]))
  })

  it('is called damage where only the checksum sees it', () => {
    const bad = bytes.slice()
    bad[bad.length - 1]! ^= 1
    expect(refusal(bad)).toMatchObject({ field: 'checksum', offsetBytes: 37 })
    expect(refusal(bad).message).toMatch(/the file is damaged.*"[0-9a-f]{8}".*[0-9a-f]{8}/)
  })
})

describe('a file that is whole but wrong', () => {
  const weights = sample.mixture.weights
  it.each<[string, Uint8Array, string, RegExp]>([
    [
      'a newer format',
      forge(({ metadata }) => metadata.set('formatVersion', '2')),
      'formatVersion',
      /format 2, from a newer OddFlow/,
    ],
    [
      'a format that is no number',
      forge(({ metadata }) => metadata.set('formatVersion', 'x')),
      'formatVersion',
      /expected formatVersion 1/,
    ],
    ['no format', forge(({ metadata }) => metadata.delete('formatVersion')), 'formatVersion', /found null/],
    ['no threshold', forge(({ metadata }) => metadata.delete('threshold')), 'threshold', /lacks/],
    ['other metadata', forge(({ metadata }) => metadata.set('zebra', '1')), 'zebra', /no such metadata/],
    [
      'text for JSON',
      forge(({ metadata }) => metadata.set('provenance', '{"a":1')),
      'provenance',
      /not JSON/,
    ],
    [
      'a repeated key',
      forge(({ metadata }) => metadata.set('provenance', '{"seed":1,"seed":2}')),
      'provenance',
      /repeats the key "seed"/,
    ],
    [
      'another kind',
      forge(({ metadata }) => metadata.set('kind', 'oc-nystrom-qs')),
      'kind',
      /expected oc-kjl-qs/,
    ],
    [
      'a kind from the prototype',
      forge(({ metadata }) => metadata.set('kind', 'constructor')),
      'kind',
      /constructor/,
    ],
    [
      'a lacking tensor',
      forge(({ tensors }) => tensors.delete('mixture.weights')),
      'mixture.weights',
      /lacks this tensor/,
    ],
    [
      'another tensor',
      forge(({ tensors }) => tensors.set('zebra', { dtype: 'F64', shape: [1], data: new Float64Array(1) })),
      'zebra',
      /no such tensor/,
    ],
    [
      'a guard that is not asked for',
      edit('parameters', (p) => Object.assign(p, { supportGuard: false })),
      'supportGuard.density',
      /no such tensor/,
    ],
    [
      'no guard where one is asked for',
      forge(({ tensors }) => tensors.delete('supportGuard.support')),
      'supportGuard.support',
      /lacks this tensor/,
    ],
    ['a reach of 0', poke('supportGuard.squaredReaches', 1, 0), 'supportGuard.squaredReaches', /from 1e-300/],
    [
      'a table that falls',
      poke('supportGuard.density', 2, -1e9),
      'supportGuard.density',
      /ascending numbers/,
    ],
    [
      'a tail probability of 1',
      poke('supportGuard.support', 1, 0),
      'supportGuard.support',
      /logarithms below 0/,
    ],
    [
      'float32 weights',
      forge(({ tensors }) =>
        tensors.set('mixture.weights', {
          dtype: 'F32',
          shape: [weights.length],
          data: Float32Array.from(weights),
        }),
      ),
      'mixture.weights',
      /expected dtype F64, found F32/,
    ],
    [
      'a flat matrix',
      forge(({ tensors }) =>
        tensors.set('embedding.landmarks', { dtype: 'F64', shape: [18], data: new Float64Array(18) }),
      ),
      'embedding.landmarks',
      /expected 2 dimensions/,
    ],
    [
      'turned Cholesky factors',
      forge(({ tensors }) => {
        const old = tensors.get('mixture.precisionCholesky')!
        tensors.set('mixture.precisionCholesky', {
          dtype: 'F64',
          shape: [...old.shape].reverse(),
          data: Float64Array.from(old.data),
        })
      }),
      'mixture.precisionCholesky',
      /expected \d+ × 2 × 2/,
    ],
    [
      'wider landmarks',
      forge(({ tensors }) =>
        tensors.set('embedding.landmarks', { dtype: 'F64', shape: [6, 4], data: new Float64Array(24) }),
      ),
      'embedding.landmarks',
      /expected 3 columns/,
    ],
    [
      'a width of another contract',
      edit('featureContract', (c) => Object.assign(c, { dimension: 5, packetsPerFlow: 3 })),
      'featureContract.dimension',
      /expected 3 as the detector has/,
    ],
    [
      'another scaler in the contract',
      edit('featureContract', (c) => Object.assign(c, { scaler: 'none' })),
      'scaler.mean',
      /no such tensor/,
    ],
    [
      'another feature set',
      edit('featureContract', (c) => Object.assign(c, { featureSet: 'zebra' })),
      'featureContract.featureSet',
      /iat-size/,
    ],
    [
      'an unknown scaler',
      edit('featureContract', (c) => Object.assign(c, { scaler: 'zebra' })),
      'featureContract.scaler',
      /expected one of none, /,
    ],
    ['a weight of 0', poke('mixture.weights', 0, 0), 'mixture.weights', /positive/],
    ['weights that miss 1', poke('mixture.weights', 0, weights[0]! + 1e-6), 'mixture.weights', /sum of 1/],
    ['a mean that is no number', poke('mixture.means', 1, Number.NaN), 'mixture.means', /finite/],
    [
      'an endless landmark',
      poke('embedding.landmarks', 4, Number.POSITIVE_INFINITY),
      'embedding.landmarks',
      /finite/,
    ],
    [
      'a covariance that is not positive definite',
      poke('mixture.precisionCholesky', 3, -1),
      'mixture.precisionCholesky',
      /positive diagonal/,
    ],
    [
      'a factor that is not triangular',
      poke('mixture.precisionCholesky', 1, 0.5),
      'mixture.precisionCholesky',
      /zeros above/,
    ],
    ['a scale of 0', poke('scaler.scale', 2, 0), 'scaler.scale', /positive/],
    [
      'a bandwidth of 0',
      edit('embedding', (e) => Object.assign(e, { bandwidth: 0 })),
      'embedding.bandwidth',
      /positive/,
    ],
    [
      'a bandwidth of text',
      edit('embedding', (e) => Object.assign(e, { bandwidth: '1' })),
      'embedding.bandwidth',
      /finite number/,
    ],
    [
      'no embedding',
      forge(({ metadata }) => metadata.set('embedding', 'null')),
      'embedding.kind',
      /expected kjl/,
    ],
    [
      'a threshold of another rank',
      edit('threshold', (t) => Object.assign(t.calibration as object, { rank: 50 })),
      'threshold.calibration.rank',
      /expected/,
    ],
    [
      'a service with markup',
      edit('onePacketRule', (r) => Object.assign(r, { services: ['<b>'] })),
      'onePacketRule.services[0]',
      /protocol\/port/,
    ],
    [
      'a short hash',
      edit('provenance', (p) => Object.assign(p, { dataSha256: 'ab' })),
      'provenance.dataSha256',
      /64/,
    ],
    [
      'notes without end',
      edit('fitReport', (r) => Object.assign(r, { notes: new Array(101).fill('x') })),
      'fitReport.notes',
      /100/,
    ],
    [
      'a one-packet rule for bare rows',
      forge(({ metadata }) =>
        metadata.set(
          'featureContract',
          '{"featureSet":"rows","featureSetVersion":1,"dimension":3,"scaler":"standard"}',
        ),
      ),
      'onePacketRule',
      /expected null/,
    ],
    [
      'another safetensors file',
      encodeSafetensors({ tensors: new Map(), metadata: new Map([['format', 'pt']]) }),
      'checksum',
      /not an OddFlow model/,
    ],
  ])('refuses %s', (_, bad, field, message) => {
    const error = refusal(bad)
    expect(error.message).toMatch(message)
    expect(error.field).toBe(field)
    const offset = error.offsetBytes!
    // where it says: a metadata entry, a tensor's numbers, or the place where the two are wanting
    const headerBytes = new DataView(bad.buffer, bad.byteOffset).getUint32(0, true)
    const entry = `"${field.split('.')[0]}":"`
    const tensors = decodeSafetensors(bad).tensors
    let at = 8 + headerBytes
    let start = -1
    for (const [name, tensor] of tensors) {
      if (name === field) start = at
      at += tensor.data.byteLength
    }
    const header = Buffer.from(bad.subarray(0, 8 + headerBytes))
    const wanted = start >= 0 ? start : Math.max(header.indexOf(entry.replace(/\[.*\]/, '')), -1)
    if (wanted >= 0) expect(offset).toBe(wanted)
    else expect(offset).toBeGreaterThanOrEqual(8)
  })

  it('refuses to write what it would refuse to read', () => {
    const cases: [Partial<Record<keyof SavedModel, unknown>>, string][] = [
      [{ contract: { ...saved.contract, dimension: 4 } }, 'featureContract.dimension'],
      [{ contract: { ...saved.contract, scaler: 'none' } }, 'featureContract.scaler'],
      [{ threshold: { ...saved.threshold, value: Number.NaN } }, 'threshold.value'],
      [{ provenance: { ...saved.provenance, seed: -1 } }, 'provenance.seed'],
      [{ onePacketRule: { flows: -1, services: [] } }, 'onePacketRule.flows'],
      [{ detector: { ...saved.detector, kind: 'oc-kjl' } }, 'kind'],
    ]
    for (const [change, field] of cases) {
      const write = (): unknown => encodeModelFile({ ...saved, ...change } as SavedModel)
      expect(write).toThrow(OddFlowError)
      try {
        write()
      } catch (error) {
        expect(error instanceof FormatError || error instanceof ArgumentError).toBe(true)
        expect((error as OddFlowError).field).toBe(field)
      }
    }
  })
})

const hasPython = (() => {
  try {
    execFileSync('python3', ['-c', 'pass'])
    return true
  } catch {
    console.warn('python3 is not installed: the independent reader of model files is skipped')
    return false
  }
})()

describe.skipIf(!hasPython)('an independent reader in Python', () => {
  const folder = mkdtempSync(join(tmpdir(), 'oddflow-model-'))
  afterAll(() => rmSync(folder, { recursive: true }))

  it('finds every tensor where the header says, aligned and bit-equal, and the metadata', () => {
    const path = join(folder, 'small.oddflow')
    writeFileSync(path, bytes)
    const reader = fileURLToPath(
      new URL('../../../../tools/independent-readers/read_safetensors.py', import.meta.url),
    )
    const output = JSON.parse(execFileSync('python3', [reader, path], { encoding: 'utf8' })) as {
      metadata: Record<string, string>
      tensors: Record<string, { shape: number[]; aligned: boolean; values: string[] }>
    }
    const { embedding, mixture, scaler, supportGuard } = sample
    if (supportGuard === null) throw new Error('the sample has a guard')
    if (scaler.kind !== 'standard') throw new Error('the sample has a scaler')
    const expected: Record<string, [number[], Float64Array]> = {
      'embedding.landmarks': [[6, 3], embedding.landmarks.data],
      'embedding.projection': [[2, 6], embedding.projection.data],
      'mixture.means': [[mixture.means.rows, 2], mixture.means.data],
      'mixture.precisionCholesky': [[mixture.means.rows, 2, 2], mixture.precisionCholesky],
      'mixture.weights': [[mixture.means.rows], mixture.weights],
      'scaler.mean': [[3], scaler.mean],
      'scaler.scale': [[3], scaler.scale],
      'supportGuard.density': [[supportGuard.density.rows, 2], supportGuard.density.data],
      'supportGuard.squaredReaches': [[6], supportGuard.squaredReaches],
      'supportGuard.support': [[supportGuard.support.rows, 2], supportGuard.support.data],
    }
    expect(Object.keys(output.tensors).sort()).toEqual(Object.keys(expected))
    for (const [name, [shape, data]] of Object.entries(expected)) {
      const found = output.tensors[name]!
      expect(found.aligned, name).toBe(true)
      expect(found.shape, name).toEqual(shape)
      expect(found.values.map(fromHex), name).toEqual([...data])
    }
    expect(output.metadata.formatVersion).toBe('1')
    expect(JSON.parse(output.metadata.threshold!)).toEqual(saved.threshold)
    expect(JSON.parse(output.metadata.featureContract!)).toEqual(saved.contract)
  })
})

/** Python's float.hex, for example -0x1.8p+1. */
function fromHex(text: string): number {
  const [, sign, whole, fraction, exponent] = /^(-?)0x([01])\.?([0-9a-f]*)p([+-]\d+)$/.exec(text)!
  const mantissa = Number.parseInt(whole! + fraction!, 16) / 16 ** fraction!.length
  return (sign === '-' ? -1 : 1) * mantissa * 2 ** Number(exponent)
}
