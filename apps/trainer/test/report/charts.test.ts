import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { curvePoints, drawEmbedding, embeddingCaption, POINT_LIMIT } from '../../src/report/charts.js'
import {
  binScores,
  chooseScale,
  scalePosition,
  scaleTicks,
  scoreCaption,
} from '../../src/report/score-chart.js'
import { sampleReport } from './sample-report.js'

const anyNumber = fc.oneof(
  fc.double(),
  fc.double({ min: -1e5, max: 30, noNaN: true }),
  fc.integer({ min: -5, max: 5 }),
)
const sum = (values: Iterable<number>): number => Array.from(values).reduce((a, b) => a + b, 0)

describe('score histogram', () => {
  it('puts exactly the flagged share of each group left of the threshold', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: -1e5, max: 30, noNaN: true }), { minLength: 1, maxLength: 60 }),
        fc.array(fc.double({ min: -1e5, max: 30, noNaN: true }), { minLength: 1, maxLength: 60 }),
        fc.nat(),
        (normal, novel, pick) => {
          // The threshold is one of the scores: a score equal to it is novel.
          const threshold = normal[pick % normal.length]!
          const bins = binScores({ normal, novel, threshold })!
          for (const [shares, scores] of [
            [bins.normal, normal],
            [bins.novel, novel],
          ] as const) {
            const left = sum(shares.filter((_, i) => bins.first + i < 0))
            const flagged = scores.filter((s) => s - threshold <= 0).length / scores.length
            expect(left).toBeCloseTo(flagged, 9)
            expect(sum(shares)).toBeCloseTo(1, 9)
          }
        },
      ),
    )
  })

  it('chooses an even axis for even scores and a logarithmic one for heavy tails', () => {
    expect(chooseScale([1, 2, 3, 4, 5], [0, 0.5], 1)!.kind).toBe('linear')
    const heavy = chooseScale([10, 11, 12, 13, 14], [-1e5, -300, 9], 9)!
    expect(heavy.kind).toBe('symlog')
    expect(heavy.unit).toBe(1)
    expect(heavy.clippedLow + heavy.clippedHigh).toBe(0)
    expect(scaleTicks(heavy)).toContain(0)
  })

  it('gathers the unreachable in the outermost bar and says so', () => {
    const bins = binScores({ normal: [10, 11, 12, 13, Number.NaN], novel: [-1e200, 5], threshold: 9 })!
    expect(bins.novel[0]).toBe(0.5)
    expect(scoreCaption(bins.scale)).toContain('1 score further off than the axis reaches')
    expect(scoreCaption(bins.scale)).toContain('1 score not a finite number')
  })

  it('keeps its axis finite, ordered and lightly ticked for any numbers', () => {
    fc.assert(
      fc.property(
        fc.array(anyNumber, { maxLength: 40 }),
        fc.array(anyNumber, { maxLength: 40 }),
        anyNumber,
        (normal, novel, t) => {
          const scale = chooseScale(normal, novel, t)
          if (scale === null) return
          expect(Number.isFinite(scale.low) && Number.isFinite(scale.high)).toBe(true)
          expect(scale.low).toBeLessThan(scale.high)
          const ticks = scaleTicks(scale)
          expect(ticks.length).toBeGreaterThan(0)
          expect(ticks.length).toBeLessThanOrEqual(14)
          for (const tick of ticks) {
            const u = scalePosition(scale, tick)
            expect(u).toBeGreaterThanOrEqual(scale.low)
            expect(u).toBeLessThanOrEqual(scale.high)
          }
        },
      ),
      { numRuns: sampleCount(300) },
    )
  })
})

describe('ROC curve', () => {
  it('keeps the area to a thousandth while dropping corners no eye sees', () => {
    const roc = sampleReport({ normal: 8000, novel: 2000 }).roc!
    const points = curvePoints(roc)
    expect(points.length).toBeLessThan(roc.fpr.length / 4)
    let area = 0
    for (let i = 1; i < points.length; i++)
      area += ((points[i]![0] - points[i - 1]![0]) * (points[i]![1] + points[i - 1]![1])) / 2
    expect(Math.abs(area - roc.auc)).toBeLessThan(1e-3)
    expect(points[0]).toEqual([0, 0])
    expect(points.at(-1)).toEqual([1, 1])
  })
})

describe('embedding', () => {
  it('draws at most the limit, the same each time, and says how many', () => {
    const { embedding } = sampleReport({ normal: 9000, novel: 1000 })
    const drawing = drawEmbedding(embedding!)!
    expect(drawing.points.length).toBeLessThanOrEqual(POINT_LIMIT)
    expect(drawing.points.length).toBeGreaterThan(POINT_LIMIT * 0.95)
    expect(drawing.points.filter((p) => p.group === 'novel').length).toBe(200)
    expect(embeddingCaption(drawing)).toContain('of 10,000 flows are drawn')
    expect(drawEmbedding(embedding!)).toEqual(drawing)
  })

  // x'Σ⁻¹x = σ² on the outline is the definition of the ellipse (Mahalanobis distance).
  it('outlines the set at one and two standard deviations', () => {
    const mean = [3, -2] as const
    const [xx, xy, yy] = [4, 1.5, 2]
    const drawing = drawEmbedding({
      points: [],
      ellipses: [{ mean, covariance: [xx, xy, yy], weight: 1 }],
      dimensions: 5,
    })!
    const det = xx * yy - xy * xy
    for (const { sigma, points } of drawing.outlines)
      for (const [px, py] of points) {
        const [dx, dy] = [px - mean[0], py - mean[1]]
        expect((yy * dx * dx - 2 * xy * dx * dy + xx * dy * dy) / det).toBeCloseTo(sigma * sigma, 9)
      }
    expect(drawing.outlines.map((o) => o.sigma)).toEqual([1, 2])
  })

  it('is not led astray by one wild point and leaves none out in silence', () => {
    const points = Array.from({ length: 500 }, (_, i) => ({
      x: (i % 25) / 25,
      y: i / 500,
      group: 'normal' as const,
    }))
    const wild = [
      { x: 1e12, y: 0, group: 'novel' as const },
      { x: Number.NaN, y: 0, group: 'normal' as const },
    ]
    const flat = { mean: [0, 0], covariance: [1, 1, 1], weight: 1 } as const
    const drawing = drawEmbedding({ points: [...points, ...wild], ellipses: [flat], dimensions: 2 })!
    expect(drawing.x[1]).toBeLessThan(5)
    const caption = embeddingCaption(drawing)
    expect(caption).toContain('outside the frame')
    expect(caption).toContain('1 flow without finite coordinates')
    expect(caption).toContain('1 component without a positive definite covariance')
  })
})
