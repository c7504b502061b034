import { createRng, decodeSafetensors, encodeSafetensors, FormatError, type Tensor } from '@oddflow/core'
import {
  decodeModelFile,
  type EmbeddedMixtureModel,
  encodeModelFile,
  novelRows,
  type SavedModel,
} from '@oddflow/detectors'
import { describe, expect, it } from 'vitest'
import { createOnlineUpdater, learnedStateOf } from '../src/index.js'
import { CHECKSUM_OFFSET, modelFileChecksum, sampleModel, sampleRows } from './detectors.js'

function learnt(options = {}): SavedModel {
  const updater = createOnlineUpdater(sampleModel({ detector: 'oc-kjl-qs', ...options }), {
    learning: { roundRows: 20, guard: null, calibrationRows: 10 },
  })
  updater.arrive(sampleRows(5, 80))
  updater.endRound()
  return updater.saved()
}

const saved = learnt()
const bytes = encodeModelFile(saved)
const file = decodeSafetensors(bytes)

function signed(forged: Uint8Array): Uint8Array {
  forged.set(Buffer.from(modelFileChecksum(forged)), CHECKSUM_OFFSET)
  return forged
}

/** What reading says of the file with some of it changed. */
function refusal(change: {
  tensors?: Record<string, Tensor | undefined>
  head?: (head: Record<string, unknown>) => void
}): FormatError | null {
  const tensors = new Map(file.tensors)
  for (const [name, tensor] of Object.entries(change.tensors ?? {})) {
    if (tensor === undefined) tensors.delete(name)
    else tensors.set(name, tensor)
  }
  const head = JSON.parse(file.metadata.get('learned')!) as Record<string, unknown>
  change.head?.(head)
  const metadata = new Map([...file.metadata, ['learned', JSON.stringify(head)]] as [string, string][])
  try {
    decodeModelFile(signed(encodeSafetensors({ tensors, metadata })), learnedStateOf)
    return null
  } catch (error) {
    if (error instanceof FormatError) return error
    throw error
  }
}

const f64 = (shape: number[], ...data: number[]): Tensor => ({
  dtype: 'F64',
  shape,
  data: Float64Array.from(data),
})

/** The tensor with one number put in. */
const spoilt = (name: string, at: number, value: number): Record<string, Tensor> => {
  const tensor = file.tensors.get(name)!
  const data = tensor.data.slice()
  data[at] = value
  return { [name]: { ...tensor, data } as Tensor }
}

describe('a model file with learned state', () => {
  it('reads back as it was, unchanged by reading', () => {
    expect(refusal({})).toBeNull()
    expect(decodeModelFile(bytes)).toEqual(saved)
    expect(learnedStateOf(decodeModelFile(bytes))!.counters.learnt).toBeGreaterThan(40)
  })

  it('is read for scoring whatever its learned part holds, and refused by name where that is used', () => {
    const forged = decodeModelFile(bytes)
    forged.learned!.tensors['learned.statistics.masses']!.data[0] = -1
    const read = decodeModelFile(encodeModelFile(forged))
    expect(read).toEqual(forged)
    expect(novelRows(read, sampleRows(6))).toEqual(novelRows(saved, sampleRows(6)))
    for (const use of [learnedStateOf, createOnlineUpdater]) {
      expect(() => use(read)).toThrow(expect.objectContaining({ field: 'learned.statistics.masses' }))
    }
  })

  it('is not written with parts that are not of the learned state', () => {
    const tensors = { ...saved.learned!.tensors, 'mixture.weights': f64([1], 1) }
    const learned = { ...saved.learned!, tensors }
    expect(() => encodeModelFile({ ...saved, learned })).toThrow(/learned: expected names.*mixture.weights/)
    const none = { ...saved.learned!, metadata: null as never }
    expect(() => encodeModelFile({ ...saved, learned: none })).toThrow(/learned: expected an object/)
  })

  it('states the searched values of the trained model, whose sizes an update may have raised', () => {
    const { frozen } = learnedStateOf(saved)!
    const { m } = (frozen.detector as EmbeddedMixtureModel).parameters
    const selection = (values: number[]) => ({
      criterion: 'validation-auc' as const,
      grid: { m: values },
      candidates: values.length,
      failed: 0,
      auc: 0.9,
      normalRows: 5,
      novelRows: 5,
      dataSha256: 'a'.repeat(64),
    })
    const searched = (values: number[], learned = saved.learned!): SavedModel => ({
      ...saved,
      learned,
      provenance: { ...saved.provenance, selection: selection(values) },
    })
    const read = (model: SavedModel) => decodeModelFile(encodeModelFile(model), learnedStateOf)
    expect(read(searched([m, m + 1]))).toEqual(searched([m, m + 1]))
    expect(() => read(searched([m + 1]))).toThrow(/provenance.selection.grid.m/)
  })

  it('adds nothing to the file of a model without updates', () => {
    const plain = encodeModelFile(sampleModel())
    expect([...decodeSafetensors(plain).metadata.keys()]).not.toContain('learned')
    expect([...decodeSafetensors(plain).tensors.keys()].filter((name) => name.startsWith('learned'))).toEqual(
      [],
    )
    expect('learned' in decodeModelFile(plain)).toBe(false)
  })

  const tensors = [...file.tensors.keys()].filter((name) => name.startsWith('learned.'))

  it.each(tensors)('is refused without %s, and with it of another shape', (name) => {
    expect(refusal({ tensors: { [name]: undefined } })?.message).toMatch(/lacks this tensor|expected/)
    const { shape } = file.tensors.get(name)!
    const length = shape.reduce((product, size) => product * size, 1)
    const wrong = refusal({
      tensors: { [name]: f64([length + 1], ...new Array<number>(length + 1).fill(0)) },
    })
    expect(wrong?.field).toContain('learned')
  })

  it.each(
    tensors.filter(
      (name) => file.tensors.get(name)!.dtype === 'F64' && file.tensors.get(name)!.data.length > 0,
    ),
  )('is refused with a number in %s that is none', (name) => {
    const error = refusal({ tensors: spoilt(name, 0, Number.NaN) })
    expect(error?.field).toContain('learned')
    expect(error?.offsetBytes).toBeGreaterThan(8)
  })

  it('is refused with impossible numbers', () => {
    expect(refusal({ tensors: spoilt('learned.statistics.masses', 0, -1) })?.field).toBe(
      'learned.statistics.masses',
    )
    expect(refusal({ tensors: spoilt('learned.statistics.scatters', 1, 0.5) })?.field).toBe(
      'learned.statistics.scatters',
    )
    expect(refusal({ tensors: spoilt('learned.reservoirWeights', 0, 0) })?.field).toBe(
      'learned.reservoirWeights',
    )
    expect(refusal({ tensors: spoilt('learned.origins', 0, 99) })?.field).toBe('learned.origins')
    expect(refusal({ tensors: spoilt('learned.frozen.mixture.weights', 0, -1) })?.field).toContain(
      'learned.frozen',
    )
    expect(refusal({ tensors: { 'learned.more': f64([1], 1) } })?.message).toContain('no such tensor')
  })

  it.each([
    ['base.means', 0, 1e200],
    ['statistics.means', 1, -1e150],
    ['statistics.masses', 0, 1e308],
    ['base.masses', 0, 1e16],
    ['base.scatters', 0, 1e308],
    ['statistics.scatters', 2, 1e12],
    ['statistics.scatters', 2, -1e308],
    ['reservoirWeights', 0, 1e308],
    ['reservoirWeights', 0, 4.5e15],
    ['reservoir', 0, 1e200],
    ['fresh', 0, 1e308],
    ['knownNovel', 0, -1e308],
    ['knownNormal', 0, 1e160],
    ['random', 0, 1e308],
    ['frozen.mixture.means', 0, 1e200],
    ['frozen.mixture.precisionCholesky', 0, 1e-200],
    ['frozen.embedding.projection', 0, 1e300],
    ['frozen.embedding.landmarks', 0, 1e200],
  ])('is refused with learned.%s[%d] = %d', (name, at, value) => {
    const said = refusal({ tensors: spoilt(`learned.${name}`, at, value) })
    expect(said?.field).toContain(`learned.${name}`)
    expect(said?.message).toContain(name.replace('frozen.', ''))
  })

  it('is refused with a scatter of no mass', () => {
    expect(refusal({ tensors: spoilt('learned.base.masses', 0, 0) })?.field).toBe('learned.base.scatters')
  })

  it('is refused with a random matrix of zeros', () => {
    const tensor = file.tensors.get('learned.random')!
    const zeros = { ...tensor, data: new Float64Array(tensor.data.length) } as Tensor
    expect(refusal({ tensors: { 'learned.random': zeros } })?.field).toBe('learned.random')
  })

  it('is refused with a guard that knows of no rows', () => {
    const empty = f64([0, 3])
    const tensors = { 'learned.knownNormal': empty, 'learned.knownNovel': empty }
    const guard = { maximumNoveltyLoss: 0.02, maximumFalsePositiveRise: 0.1, shadowAgrees: false }
    const change = (h: Record<string, unknown>) => Object.assign(h.options as object, { guard })
    expect(refusal({ tensors, head: change })?.field).toBe('learned.knownNormal')
    expect(refusal({ tensors })).toBeNull()
    const { metadata } = saved.learned!
    const without = { ...saved, learned: { metadata, tensors: { ...saved.learned!.tensors, ...tensors } } }
    expect(() => createOnlineUpdater(without, { learning: { guard } })).toThrow(
      /learning.guard: no rows are known/,
    )
  })

  it.each([
    ['unseenRows', 1e308],
    ['densityShift', 1e308],
    ['densityShift', -1e200],
    ['reservoirSeen', Number.MAX_SAFE_INTEGER],
  ])('is refused with %s = %d', (key, value) => {
    expect(refusal({ head: (h) => Object.assign(h, { [key]: value }) })?.field).toBe(`learned.${key}`)
  })

  it('is refused with a counter that is near its end, not with a late period', () => {
    const last = 2 ** 52
    const change = (key: string) => (h: Record<string, unknown>) =>
      Object.assign(h.counters as object, { [key]: last })
    expect(refusal({ head: change('arrived') })?.field).toBe('learned.counters.arrived')
    expect(refusal({ head: change('lastPeriod') })).toBeNull()
  })

  it('is refused with weights that are too many rows together', () => {
    const tensor = file.tensors.get('learned.reservoirWeights')!
    const data = new Float64Array(tensor.data.length).fill(2 ** 51 / 4)
    const error = refusal({ tensors: { 'learned.reservoirWeights': { ...tensor, data } as Tensor } })
    expect(error?.field).toBe('learned.reservoirWeights')
    expect(error?.offsetBytes).toBeGreaterThan(8)
  })

  it('learns on, or is left as it was, with counts of rows at their limit', () => {
    const most = 2 ** 51
    const forged = decodeModelFile(bytes)
    const { tensors, metadata } = forged.learned!
    tensors['learned.statistics.masses']!.data[0] = most / 2
    tensors['learned.base.masses']!.data[0] = most - 1000
    const counters = { ...(metadata.counters as Record<string, number>), arrived: most, learnt: most }
    const full = { ...forged, learned: { tensors, metadata: { ...metadata, counters, reservoirSeen: most } } }
    const updater = createOnlineUpdater(full)
    expect(updater.arrive(sampleRows(7, 2000)).rounds.at(-1)!.reason).toBe('overflow')
    const read = learnedStateOf(decodeModelFile(encodeModelFile(updater.saved()), learnedStateOf))!
    expect(read.counters.arrived).toBe(most)
  })

  it('names the whole path of a parameter inside a stage', () => {
    const change = (h: Record<string, { parameters: { start: object } }>) =>
      Object.assign(h.frozen!.parameters.start, { beta: 5 })
    const error = refusal({ head: change as (h: Record<string, unknown>) => void })
    expect(error?.field).toBe('learned.frozen.parameters.start.beta')
  })

  it('reads back after long forgetting, when next to nothing is left of old rows', () => {
    const updater = createOnlineUpdater(sampleModel({ detector: 'gmm' }), {
      learning: {
        roundRows: 7000,
        guard: null,
        calibrationShare: 0,
        reservoirRows: 1500,
        forgetting: { kind: 'exponential', halfLifeRows: 10 },
      },
    })
    for (const rows of [1500, 7000]) {
      updater.arrive(sampleRows(4, rows), { assumeNormal: true })
      updater.endRound()
    }
    const { reservoir } = updater.state
    expect(Math.min(...reservoir.numbers)).toBe(1e-200)
    const long = encodeModelFile(updater.saved())
    expect(encodeModelFile(decodeModelFile(long, learnedStateOf))).toEqual(long)
  })

  it('is refused with a head that is not as it is written', () => {
    expect(refusal({ head: (h) => Object.assign(h, { version: 2 }) })?.field).toBe('learned.version')
    expect(refusal({ head: (h) => Object.assign(h, { zz: 1 }) })?.message).toContain('zz')
    expect(refusal({ head: (h) => Object.assign(h, { unseenRows: -1 }) })?.field).toBe('learned.unseenRows')
    expect(refusal({ head: (h) => Reflect.deleteProperty(h, 'seed') })?.field).toBe('learned.seed')
    expect(refusal({ head: (h) => Reflect.deleteProperty(h.counters as object, 'learnt') })?.field).toContain(
      'learnt',
    )
    expect(refusal({ head: (h) => Object.assign(h.options as object, { roundRows: 0 }) })?.field).toContain(
      'roundRows',
    )
    expect(refusal({ head: (h) => Object.assign(h.options as object, { more: 1 }) })?.field).toContain('more')
    expect(refusal({ head: (h) => Object.assign(h.frozen as object, { threshold: null }) })?.field).toContain(
      'learned.frozen',
    )
    for (const value of [null, 1, 'x', [], { toString: 1 }]) {
      for (const key of ['options', 'counters', 'frozen', 'seed', 'densityShift', 'reservoirSeen']) {
        if (key === 'densityShift' && value === 1) continue
        if ((key === 'seed' || key === 'reservoirSeen') && value === 1) continue
        expect(refusal({ head: (h) => Object.assign(h, { [key]: value }) })?.field, key).toContain('learned')
      }
    }
  })

  it('is refused in words, or is a model, with any bytes changed', () => {
    const rng = createRng(1)
    for (let i = 0; i < 300; i++) {
      const damaged = bytes.slice()
      for (let j = 0; j < 3; j++) damaged[8 + rng.nextBelow(damaged.length - 8)] = rng.nextBelow(256)
      try {
        encodeModelFile(decodeModelFile(signed(damaged), learnedStateOf))
      } catch (error) {
        expect(error).toBeInstanceOf(FormatError)
      }
    }
  })

  it('is refused on a detector that cannot learn on', () => {
    const other = { ...sampleModel({ detector: 'nearest' }), learned: saved.learned! }
    expect(() => learnedStateOf(other)).toThrow(/nearest has no mixture/)
    const unguarded = learnt({ supportGuard: false })
    expect(() => learnedStateOf({ ...saved, learned: unguarded.learned! })).toThrow(/supportGuard/)
  })
})
