/** Explanations of alerts: features by name, and sentences that hold nothing a device could choose. */
import { createRng, type IatSizeContract, matrixOf } from '@oddflow/core'
import {
  calibrateThreshold,
  checkParameters,
  createScoreWorkspace,
  type DetectorOptions,
  fitDetector,
  type SavedModel,
  scoreSamples,
} from '@oddflow/detectors'
import { describe, expect, it } from 'vitest'
import { createAlertExplainer } from '../../src/alerts/explain-alert.js'
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
      /^tcp between 02:00:00:00:00:0a and 198\.51\.100\.1, port 443: unlike normal flows in size3 900 bytes \(normal 6\d\)/,
    )
  })

  it('has no features where there is no score or no example, and still says something', () => {
    const forest = modelOf({ detector: 'iforest', trees: 5 })
    expect(createAlertExplainer(forest)(alertOf(forest))).toMatchObject({
      mode: null,
      features: [],
      summary: expect.stringMatching(/: unlike normal flows$/),
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
      features: [],
      summary:
        'one packet of tcp between 02:00:00:00:00:0a and 198.51.100.1, port 443: nothing went to this service before (7 more alike)',
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
