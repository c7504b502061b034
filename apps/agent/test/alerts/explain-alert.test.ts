/** Explanations of alerts: features by name, and sentences that hold nothing a device could choose. */
import {
  createMatrix,
  createRng,
  type FlowSummaryContract,
  type IatSizeContract,
  matrixOf,
  type Rng,
} from '@oddflow/core'
import {
  calibrateThreshold,
  checkParameters,
  createScoreWorkspace,
  type DetectorOptions,
  fitDetector,
  type SavedModel,
  scoreSamples,
} from '@oddflow/detectors'
import { trainModel } from '@oddflow/program'
import { describe, expect, it } from 'vitest'
import { createAlertExplainer } from '../../src/alerts/eve.js'
import { modelThresholds } from '../../src/budget/thresholds.js'
import { sampleAlert } from '../support/sample-alert.js'

const COLS = 5
const contract: IatSizeContract = {
  featureSet: 'iat-size',
  featureSetVersion: 1,
  dimension: COLS,
  packetsPerFlow: 3,
  iatUnit: 'seconds',
  sizeMeasure: 'frame',
  flowKey: 'bidirectional-5-tuple',
  idleTimeoutMicros: 600_000_000,
  activeTimeoutMicros: null,
  truncation: { mode: 'split', durationMicros: 1_000_000 },
  minimumPackets: 2,
  scaler: 'standard',
}

/** Rows iat1, size1, iat2, size2, size3 of two kinds of devices. */
const rows = matrixOf(
  120,
  COLS,
  (() => {
    const rng = createRng(4)
    return Float64Array.from({ length: 120 * COLS }, (_, at) => {
      const isTime = at % COLS === 0 || at % COLS === 2
      const big = Math.floor(at / COLS) % 2
      return isTime ? 0.01 + 0.001 * rng.nextFloat() : 60 + 1000 * big + Math.round(4 * rng.nextFloat())
    })
  })(),
)

function modelOf(options: DetectorOptions): SavedModel {
  const parameters = checkParameters({ scaler: 'standard', ...options })
  const detector = fitDetector(rows, parameters, createRng(1))
  const scores = scoreSamples(detector, rows, new Float64Array(120), createScoreWorkspace(detector))
  return {
    detector,
    contract,
    threshold: calibrateThreshold(scores, 0.05),
    onePacketRule: null,
    provenance: { oddflowVersion: '0.1.0', seed: 1, dataSha256: '0'.repeat(64), rows: 120 },
  }
}

/** A normal row of the small kind, with a third packet of 900 bytes. */
const novel = rows.data.slice(0, COLS)
novel[4] = 900

const alertOf = (saved: SavedModel, changes: Parameters<typeof sampleAlert>[0] = {}) =>
  sampleAlert({
    row: novel,
    flow: { packets: 3 },
    score: scoreSamples(
      saved.detector,
      matrixOf(1, COLS, novel),
      new Float64Array(1),
      createScoreWorkspace(saved.detector),
    )[0],
    threshold: saved.threshold.value,
    ...changes,
  })

describe('an explanation', () => {
  it('names the feature that is out, the normal flow nearest to it, and its mode', () => {
    const saved = modelOf({ detector: 'oc-kjl', m: 30, k: 2 })
    const { mode, features, summary } = createAlertExplainer(saved)(alertOf(saved))
    expect(mode?.weight).toBeGreaterThan(0.2)
    expect(features[0]).toMatchObject({ name: 'size3', unit: 'bytes', value: 900 })
    expect(features[0].nearest).toBeLessThan(70)
    expect(features[0].typical).toBeLessThan(70)
    expect(features[0].gain).toBeGreaterThan(0)
    expect(summary).toMatch(
      /^tcp between 02:00:00:00:00:0a and 198\.51\.100\.1, port 443: size3 900 bytes \(normal: 6\d bytes\).*; rarer than 1 flow in 1,000$/,
    )
  })

  it('has no features where there is no score or no example, and still says something', () => {
    const forest = modelOf({ detector: 'iforest', trees: 5 })
    expect(createAlertExplainer(forest)(alertOf(forest))).toMatchObject({
      mode: null,
      features: [],
      nearestBytes: null,
      reason: 'no-comparison',
      summary: expect.stringMatching(
        /: unlike normal flows; the model stores no normal flow for comparison; rarer than 1 flow in 1,000$/,
      ),
    })
    const saved = modelOf({ detector: 'nearest', m: 30 })
    const one = alertOf(saved, {
      rule: 'one-packet',
      row: null,
      score: null,
      folded: { count: 7, firstMicros: 1, lastMicros: 2, peers: 1, services: 1, firstId: 'x' },
    })
    expect(createAlertExplainer(saved)(one)).toEqual({
      mode: null,
      reasons: [],
      features: [],
      nearestBytes: null,
      reason: 'rule',
      summary:
        'one packet of tcp between 02:00:00:00:00:0a and 198.51.100.1, port 443: training had no single-packet flow to this service (7 more like it)',
    })
  })

  it('is the same for the same alert', () => {
    const saved = modelOf({ detector: 'oc-kjl-qs', m: 30 })
    const explain = createAlertExplainer(saved)
    const first = explain(alertOf(saved))
    explain(alertOf(saved, { row: rows.data.slice(COLS, 2 * COLS), score: -1e6 }))
    expect(explain(alertOf(saved))).toEqual(first)
    expect(createAlertExplainer(saved)(alertOf(saved))).toEqual(first)
  })
})

describe('an alert of an ensemble', () => {
  const contract: FlowSummaryContract = {
    featureSet: 'flow-summary',
    featureSetVersion: 1,
    dimension: 20,
    sizeMeasure: 'payload',
    flowKey: 'bidirectional-5-tuple',
    idleTimeoutMicros: 300_000_000,
    activeTimeoutMicros: 300_000_000,
    minimumPackets: 1,
    scaler: 'none',
  }
  /** HTTPS flows: about 500 bytes in 5 packets to the responder, 3,000 in 6 from it, in a second. */
  const summaryRow = (rng: Rng, bytes = 400 + 200 * rng.nextFloat(), service = 600_443): number[] => {
    const sent = [bytes, 5, bytes / 2, bytes / 5, 50].map(Math.log1p)
    const received = [3000 + 500 * rng.nextFloat(), 6, 1400, 500, 300].map(Math.log1p)
    const times = [0, -1, -0.5, -1.5].map((t) => t + 0.1 * rng.nextFloat())
    return [...sent, ...received, ...times, Math.log1p(bytes / 2), Math.log1p(1400), 3, 0, 0, service]
  }
  const rng = createRng(2)
  const rows = createMatrix(400, 20)
  for (let i = 0; i < 400; i++) rows.data.set(summaryRow(rng), 20 * i)
  const { saved } = trainModel(
    { rows, inputOfRow: Uint32Array.from({ length: 400 }, (_, i) => i >> 6), contract, onePacketRule: null },
    {
      detector: { detector: 'ensemble' },
      falsePositiveRate: 0.01,
      calibrationShare: 0.2,
      seed: 1,
      oddflowVersion: '0.0.0',
    },
  )
  const alertFor = (row: Float64Array, changes: Parameters<typeof sampleAlert>[0] = {}) => {
    const score = scoreSamples(
      saved.detector,
      matrixOf(1, 20, row),
      new Float64Array(1),
      createScoreWorkspace(saved.detector),
    )[0]
    const rarity = modelThresholds(saved).rarity(score)
    return sampleAlert({ row, score, threshold: saved.threshold.value, rarity, ...changes })
  }
  const upload = Float64Array.from(summaryRow(createRng(3), 1_234_567))

  it('says in bytes what is unusual for the service, and how rare it is', () => {
    const { reason, reasons, features, summary } = createAlertExplainer(saved)(alertFor(upload))
    expect(reason).toBe('features')
    expect(reasons.join(', ')).toMatch(/sent 1\.2 MB \(usually under (599|6\d\d) B\)/)
    expect(features[0]).toMatchObject({ unit: 'bytes' })
    expect(summary).toBe(
      `tcp between 02:00:00:00:00:0a and 198.51.100.1, port 443: ${reasons.join(', ')}; rarer than 1 flow in 400`,
    )
  })

  it("is from the device's view, also if the device responds", () => {
    const device = { mac: '02:00:00:00:00:0a', address: '198.51.100.1' }
    const { reasons } = createAlertExplainer(saved)(alertFor(upload, { device, peer: '192.0.2.10' }))
    expect(reasons.join(', ')).toMatch(/received 1\.2 MB \(usually under (599|6\d\d) B\)/)
  })

  it('names a service that training did not have', () => {
    const row = Float64Array.from(summaryRow(createRng(3), 500, 600_023))
    expect(createAlertExplainer(saved)(alertFor(row)).summary).toMatch(
      /: never saw this service \(TCP port 23\)[^;]*; rarer than 1 flow in 400$/,
    )
  })

  it('has a rarity of its own: a lower score is rarer, not as rare as the threshold', () => {
    const rarityOf = (score: number) => modelThresholds(saved).rarity(score).atMost
    expect(rarityOf(-1e3)).toBe(1 / 401)
    expect(rarityOf(saved.threshold.value)).toBeGreaterThan(1 / 401)
    expect(rarityOf(saved.threshold.value)).toBeLessThan(0.03)
  })
})

/** Flows of 2 and of 3 packets, and of more: rows as packages/flows makes them. */
function rowOf(iats: readonly number[], sizes: readonly number[]): Float64Array {
  const row = new Float64Array(COLS)
  sizes.forEach((size, j) => {
    if (j > 0) row[2 * j - 2] = iats[j - 1]
    const column = j === sizes.length - 1 ? 2 * j : 2 * j + 1
    if (column < COLS) row[column] = size
  })
  return row
}

/** What a flow has, by name. */
function namesOf(iats: readonly number[], sizes: readonly number[]): Map<string, number> {
  const names = new Map<string, number>()
  const counted = sizes.length > 3 ? { iats: 3, sizes: 2 } : { iats: sizes.length - 1, sizes: sizes.length }
  for (let i = 0; i < counted.iats; i++) names.set(`iat${i + 1}`, iats[i])
  for (let i = 0; i < counted.sizes; i++) names.set(`size${i + 1}`, sizes[i])
  return names
}

/** Nearest to an odd flow, a model of one kind of flow, told by brute force. */
describe.each([
  ['2 packets among flows of 3', [0.4], [60, 900], [0.01, 0.01], [60, 70, 80]],
  ['2 packets among flows of 3, of equal sizes', [0.01], [60, 70], [0.01, 0.01], [60, 70, 80]],
  ['3 packets among flows of 2', [0.01, 0.5], [60, 70, 900], [0.01], [60, 70]],
  ['3 packets among flows of more', [0.01, 0.01], [60, 70, 80], [0.01, 0.01, 0.015, 0.01], [60, 70, 80, 90]],
  ['4 packets among flows of 3', [0.01, 0.01, 0.7, 0], [60, 70, 80, 90], [0.01, 0.01], [60, 70, 80]],
  ['1 packet among flows of 2', [], [1400], [0.01], [60, 70]],
  ['2 packets among flows of 1', [0.5], [60, 70], [], [60]],
])('a flow of %s', (_, iats, sizes, normalIats, normalSizes) => {
  const count = 40
  const normal = Array.from({ length: count }, (_row, i) => ({
    iats: normalIats.map((iat) => iat + 0.000001 * (i % 7)),
    sizes: normalSizes.map((size) => size + (i % 3)),
  }))
  const matrix = matrixOf(
    count,
    COLS,
    Float64Array.from(normal.flatMap((flow) => [...rowOf(flow.iats, flow.sizes)])),
  )
  const parameters = checkParameters({ scaler: 'standard', detector: 'nearest', m: 40 })
  const detector = fitDetector(matrix, parameters, createRng(1))
  const scoreOf = (row: Float64Array): number =>
    scoreSamples(detector, matrixOf(1, COLS, row), new Float64Array(1), createScoreWorkspace(detector))[0]
  const saved: SavedModel = { ...modelOf({ detector: 'nearest', m: 30 }), detector }
  const row = rowOf(iats, sizes)
  const score = scoreOf(row)
  const { features, summary } = createAlertExplainer(saved)(
    sampleAlert({ row, score, threshold: 0, flow: { packets: sizes.length } }),
  )
  // the nearest by brute force: the model remembers all rows, and its score is the distance to them
  const nearest =
    normal[
      normal.reduce((best, flow, i) => {
        const distance = (at: number): number => {
          const other = rowOf(normal[at].iats, normal[at].sizes)
          const scale = detector.scaler.kind === 'standard' ? detector.scaler.scale : new Float64Array(COLS)
          return row.reduce((sum, value, j) => sum + ((value - other[j]) / scale[j]) ** 2, 0)
        }
        return distance(i) < distance(best) && flow !== undefined ? i : best
      }, 0)
    ]
  const own = namesOf(iats, sizes)
  const theirs = namesOf(nearest.iats, nearest.sizes)

  it('has each feature by its name and unit, null for what one of the two lacks', () => {
    expect(features.length).toBeGreaterThan(0)
    for (const { name, unit, value, nearest: there } of features) {
      expect(own.has(name) || theirs.has(name), name).toBe(true)
      expect(unit).toBe(name.startsWith('size') ? 'bytes' : 's')
      expect(value).toBe(own.get(name) ?? null)
      const expected = theirs.get(name) ?? null
      if (expected === null) expect(there, name).toBeNull()
      else expect(there).toBeCloseTo(expected, 9)
      expect(value).not.toBe(there)
    }
    expect(new Set(features.map(({ name }) => name)).size).toBe(features.length)
    expect(summary).not.toMatch(/null|NaN|undefined/)
  })

  it('has only gains that count against what the score lacks, as recomputed', () => {
    for (const { gain } of features) expect(gain).toBeGreaterThanOrEqual(0.01 * (0 - score))
    // all that differs being as in the nearest flow, nothing is left to gain
    const all = scoreOf(rowOf(nearest.iats, nearest.sizes)) - score
    const sum = features.reduce((total, { gain }) => total + gain, 0)
    expect(sum).toBeLessThanOrEqual(all * (1 + 1e-9))
    expect(sum).toBeGreaterThan(0.9 * all)
  })
})

it('what gains next to nothing is not named beside what gains all', () => {
  const saved = modelOf({ detector: 'nearest', m: 120 })
  const row = novel.slice()
  row[4] = 900_000
  const score = scoreSamples(
    saved.detector,
    matrixOf(1, COLS, row),
    new Float64Array(1),
    createScoreWorkspace(saved.detector),
  )[0]
  const { features } = createAlertExplainer(saved)(alertOf(saved, { row, score, threshold: 0 }))
  expect(features.map(({ name }) => name)).toEqual(['size3'])
})

it('nothing is said of features that gain nothing: the flow is unlike normal ones as a whole', () => {
  // far off in more features than are replaced: without its guard the paper's form scores all that is far alike
  const [count, cols] = [60, 7]
  const rng = createRng(5)
  const wide = matrixOf(
    count,
    cols,
    Float64Array.from({ length: count * cols }, () => 60 + rng.nextNormal()),
  )
  const parameters = checkParameters({ detector: 'oc-kjl-svm', m: 30, supportGuard: false })
  const detector = fitDetector(wide, parameters, createRng(1))
  const row = new Float64Array(cols).fill(60_000)
  const score = scoreSamples(
    detector,
    matrixOf(1, cols, row),
    new Float64Array(1),
    createScoreWorkspace(detector),
  )[0]
  const saved: SavedModel = {
    ...modelOf({ detector: 'nearest', m: 30 }),
    detector,
    contract: { ...contract, dimension: cols, packetsPerFlow: 4 },
  }
  const { reason, features, summary } = createAlertExplainer(saved)(
    sampleAlert({ row, score, threshold: score + 1, flow: { packets: 4 } }),
  )
  expect(features).toEqual([])
  expect(reason).toBe('whole')
  expect(summary).toMatch(
    /: differs from normal flows as a whole; no single feature explains the difference; rarer than 1 flow in 1,000$/,
  )
})
