/** What the pictures of embeddings count, and that the committed figures come again. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { createRng, matrixOf } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import {
  bestStraightLine,
  drawClusterInCluster,
  measureClusterInCluster,
} from '../../src/studies/embeddings.js'

const COMMITTED = fileURLToPath(new URL('../../../../docs/results/embeddings.json', import.meta.url))

describe('the best straight line', () => {
  const points = (rows: readonly (readonly [number, number])[]) =>
    matrixOf(rows.length, 2, Float64Array.from(rows.flat()))

  it('parts all where all can be parted, on either side', () => {
    const rows = points([
      [0, 0],
      [1, 0],
      [0, 5],
      [1, 5],
    ])
    expect(bestStraightLine(rows, Uint8Array.of(0, 0, 1, 1))).toBe(1)
    expect(bestStraightLine(rows, Uint8Array.of(1, 1, 0, 0))).toBe(1)
  })

  it('gets three of four corners of a chequerboard', () => {
    expect(
      bestStraightLine(
        points([
          [0, 0],
          [1, 1],
          [0, 1],
          [1, 0],
        ]),
        Uint8Array.of(0, 0, 1, 1),
      ),
    ).toBe(0.75)
  })

  it('does not part points in one place', () => {
    expect(
      bestStraightLine(
        points([
          [2, 2],
          [2, 2],
          [2, 2],
          [2, 2],
        ]),
        Uint8Array.of(0, 1, 0, 1),
      ),
    ).toBe(0.5)
  })
})

describe('cluster in cluster', () => {
  it('is a ring around a ball, half of the rows each', () => {
    const { rows, isOuter } = drawClusterInCluster(2000, createRng(3))
    const radii = Array.from(isOuter, (_, i) => Math.hypot(rows.data[2 * i]!, rows.data[2 * i + 1]!))
    const of = (outer: number): number[] => radii.filter((_, i) => isOuter[i] === outer)
    expect(of(1)).toHaveLength(1000)
    const mean = (values: number[]): number => values.reduce((a, b) => a + b, 0) / values.length
    expect(Math.abs(mean(of(1)) - 5)).toBeLessThan(0.1)
    // of a normal pair: √(π/2)
    expect(Math.abs(mean(of(0)) - Math.sqrt(Math.PI / 2))).toBeLessThan(0.1)
  })

  it('is parted by a straight line after either embedding and not before: the committed figures again', () => {
    const { clusterInCluster: known } = JSON.parse(readFileSync(COMMITTED, 'utf8')).figures
    const again = measureClusterInCluster(1)
    expect(again.straightLineBefore).toBe(known.straightLineBefore)
    expect(again.straightLineAfter.kjl[0]).toBe(known.straightLineAfter.kjl[0])
    expect(again.straightLineAfter.nystrom[0]).toBe(known.straightLineAfter.nystrom[0])
    expect(again.panels).toEqual(known.panels)
    expect(known.straightLineBefore).toBeLessThan(0.7)
    expect(Math.min(...known.straightLineAfter.nystrom)).toBeGreaterThan(0.95)
  }, 180_000)
})
