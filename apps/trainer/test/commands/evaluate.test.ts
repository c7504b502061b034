import { createMatrix } from '@oddflow/core'
import { auc } from '@oddflow/evaluation'
import { describe, expect, it } from 'vitest'
import { type Evaluation, type LabelledResult, reportData } from '../../src/commands/evaluate.js'
import { countVerdicts, type InputVerdict } from '../../src/pipeline/verdict-store.js'
import { flowVerdict, smallModel } from '../small-model.js'

const { saved } = smallModel()
const texts = { title: 'T', subtitle: 'S', notes: ['a note of the caller'] }

function resultOf(name: string, label: 'normal' | 'novel', verdicts: InputVerdict[]): LabelledResult {
  return { name, label, read: null, verdicts, counts: countVerdicts(verdicts) }
}

function evaluationOf(inputs: LabelledResult[]): Evaluation {
  const rows = createMatrix(2, 3)
  return {
    inputs,
    normalScores: Float64Array.of(3),
    novelScores: Float64Array.of(-5, -9),
    roc: null,
    auc: null,
    tprAtFpr: [],
    falsePositiveRate: 0,
    truePositiveRate: 1,
    falsePositiveRateAll: 0,
    truePositiveRateAll: 1,
    shownRows: { normal: rows, novel: createMatrix(0, 3) },
    complaints: ['b.pcap: cut short'],
  }
}

describe('reportData', () => {
  const one = { score: null, decision: null, rule: 'one-packet' } as const
  const evaluation = evaluationOf([
    resultOf('a.pcap', 'normal', [flowVerdict({ score: 3, novel: false })]),
    resultOf('b.pcap', 'novel', [flowVerdict(one), flowVerdict({ score: -5 }), flowVerdict({ score: -9 })]),
  ])
  const data = reportData(saved, evaluation, texts)

  it('lists what was flagged, the lowest score first and one-packet flows last', () => {
    expect(data.flagged.total).toBe(3)
    expect(data.flagged.rows.map(({ score }) => score)).toEqual([-9, -5, null])
    expect(data.flagged.rows[0]).toMatchObject({
      source: '192.0.2.1:51324',
      destination: '[2001:db8::1]:443',
      capture: 'b.pcap',
      label: 'novel',
    })
  })

  it('says whose each flow is and why, of those that are shown, and counts the flows of each device', () => {
    let explained = 0
    const explain = () => {
      explained++
      return {
        reason: 'features',
        reasons: ['sent 1 MB (usually none)'],
        mode: null,
        features: [],
        nearestBytes: null,
      } as const
    }
    const many = Array.from({ length: 700 }, (_, i) =>
      flowVerdict({ score: -i, device: i < 600 ? '02:00:00:00:00:0a' : '192.168.0.7', explain }),
    )
    const { flagged } = reportData(saved, evaluationOf([resultOf('b', 'novel', many)]), texts)
    expect(flagged.rows[0]).toMatchObject({ device: '192.168.0.7', reasons: ['sent 1 MB (usually none)'] })
    expect(flagged.ofDevice).toEqual({ '02:00:00:00:00:0a': 600, '192.168.0.7': 100 })
    expect(explained).toBe(200)
  })

  it('shows the most surprising flows of each device, however many one of them has', () => {
    const flows = Array.from({ length: 900 }, (_, i) => flowVerdict({ score: -1000 + i, device: 'flooder' }))
    const quiet = Array.from({ length: 99 }, (_, i) => flowVerdict({ score: -i, device: `quiet ${i % 9}` }))
    const { rows, total } = reportData(
      saved,
      evaluationOf([resultOf('b', 'novel', [...flows, ...quiet])]),
      texts,
    ).flagged
    expect([rows.length, total]).toEqual([200, 999])
    expect(rows.map(({ score }) => score)).toEqual(rows.map(({ score }) => score).sort((a, b) => a! - b!))
    for (let d = 0; d < 9; d++) {
      // all that the device has
      expect(rows.filter(({ device }) => device === `quiet ${d}`)).toHaveLength(11)
    }
    expect(rows[0].score).toBe(-1000)
    expect(rows.filter(({ device }) => device === 'flooder')).toHaveLength(101)
  })

  it('counts each capture as it was judged', () => {
    expect(data.captures).toEqual([
      { name: 'a.pcap', label: 'normal', packets: null, flows: 1, onePacketFlows: 0, flagged: 0 },
      { name: 'b.pcap', label: 'novel', packets: null, flows: 3, onePacketFlows: 1, flagged: 3 },
    ])
    expect(data.verdictLine).toBe(
      'OddFlow flagged 3 of 3 novel flows as new, and 0 of 1 normal flow by mistake.',
    )
  })

  it('carries every caveat', () => {
    expect(data.notes[0]).toBe('a note of the caller')
    expect(data.notes).toContain('b.pcap: cut short')
    expect(data.notes.some((note) => /^1 flow had a single packet/.test(note))).toBe(true)
  })

  it('draws one point a row and one ellipse a component, with symmetric positive covariances', () => {
    const { embedding } = data
    expect(embedding?.points.map(({ group }) => group)).toEqual(['normal', 'normal'])
    expect(embedding?.dimensions).toBe(2)
    expect(embedding?.ellipses).toHaveLength(2)
    for (const {
      covariance: [xx, xy, yy],
      weight,
    } of embedding?.ellipses ?? []) {
      expect(xx * yy - xy * xy).toBeGreaterThan(0)
      expect(weight).toBeGreaterThan(0)
    }
    const weights = embedding?.ellipses.reduce((sum, { weight }) => sum + weight, 0)
    expect(weights).toBeCloseTo(1, 12)
  })

  it('has no ROC without both kinds, and one with its threshold where there are', () => {
    expect(data.roc).toBeNull()
    const roc = {
      falsePositiveRates: Float64Array.of(0, 0, 1),
      truePositiveRates: Float64Array.of(0, 1, 1),
      thresholds: Float64Array.of(0, -5, 3),
    }
    const area = auc(Float64Array.of(3, -5, -9), Uint8Array.of(0, 1, 1)).value
    const withRoc = reportData(saved, { ...evaluation, roc, auc: area } as Evaluation, texts).roc
    expect(withRoc).toMatchObject({ auc: 1, fpr: [0, 0, 1], tpr: [0, 1, 1], threshold: { fpr: 0, tpr: 1 } })
  })

  it('bounds the flows it lists and says how many there were', () => {
    const many = Array.from({ length: 700 }, (_, i) => flowVerdict({ score: -i }))
    const { flagged } = reportData(saved, evaluationOf([resultOf('b', 'novel', many)]), texts)
    expect(flagged.total).toBe(700)
    expect(flagged.rows).toHaveLength(200)
    expect(flagged.rows[0].score).toBe(-699)
  })
})
