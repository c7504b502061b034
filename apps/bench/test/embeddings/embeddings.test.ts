/** The pictures of embeddings: what they count, that they are drawn from their file alone, and that a file is checked. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createRng, matrixOf } from '@oddflow/core'
import { FileError } from '@oddflow/program'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  bestStraightLine,
  drawClusterInCluster,
  measureClusterInCluster,
  readEmbeddings,
  writeEmbeddings,
} from '../../src/embeddings.js'
import { renderEmbeddingsPage } from '../../src/tables/report.js'

const COMMITTED = fileURLToPath(new URL('../../../../docs/results/embeddings.json', import.meta.url))

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'oddflow-embeddings-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

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
    const committed = readEmbeddings(COMMITTED)
    if (committed === null) throw new Error(`${COMMITTED} is not there`)
    const { clusterInCluster: known, seed } = committed
    const again = measureClusterInCluster(seed, 1)
    expect(again.straightLineBefore).toBe(known.straightLineBefore)
    expect(again.straightLineAfter.kjl[0]).toBe(known.straightLineAfter.kjl[0])
    expect(again.straightLineAfter.nystrom[0]).toBe(known.straightLineAfter.nystrom[0])
    expect(again.panels).toEqual(known.panels)
    expect(known.straightLineBefore).toBeLessThan(0.7)
    expect(Math.min(...known.straightLineAfter.nystrom)).toBeGreaterThan(0.95)
  })
})

describe('the file of a picture', () => {
  it('comes back as it was, and draws the same', () => {
    const reading = readEmbeddings(COMMITTED)!
    const path = join(folder, 'embeddings.json')
    writeEmbeddings(path, reading)
    expect(readFileSync(path, 'utf8')).toBe(readFileSync(COMMITTED, 'utf8'))
    expect([...renderEmbeddingsPage(readEmbeddings(path)!)]).toEqual([...renderEmbeddingsPage(reading)])
  })

  it.each([
    ['no JSON', '{'],
    ['markup for a name', readFileSync(COMMITTED, 'utf8').replace('ctu-rows', '<script>')],
    ['a field more', readFileSync(COMMITTED, 'utf8').replace('{"format":1', '{"format":1,"more":2')],
    ['a figure that is none', readFileSync(COMMITTED, 'utf8').replace('"rows":5000', '"rows":"5000"')],
    ['too much', ' '.repeat(17 * 2 ** 20)],
  ])('is refused with its path where it is %s', (_, text) => {
    const path = join(folder, 'embeddings.json')
    writeFileSync(path, text)
    expect(() => readEmbeddings(path)).toThrow(FileError)
    expect(() => readEmbeddings(path)).toThrow(path)
  })
})
