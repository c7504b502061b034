import { createRng, type Matrix, matrixFromRows, matrixOf } from '@oddflow/core'
import { squaredDistance } from '@oddflow/linalg'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { farthestFirstRows } from '../src/embedding/landmarks.js'
import {
  checkParameters,
  DETECTOR_NAMES,
  DETECTORS,
  type DetectorModel,
  fitDetector,
  type LandmarkChoice,
} from '../src/index.js'
import { readTestJson } from './read-json.js'
import { clusteredRows } from './rows.js'

const golden = readTestJson<{
  cases: { rows: number[][]; m: number; landmarks: number[]; distances: number[] }[]
}>('landmarks-numpy.json')

const between = ({ cols, data }: Matrix, i: number, j: number) =>
  squaredDistance(data, i * cols, data, j * cols, cols)

/** The definition, with every distance taken; rows of other groups are infinitely far and settle nothing. */
function byDefinition(
  rows: Matrix,
  m: number,
  among: readonly number[],
  groupOf: (i: number) => number,
): number[] {
  const { cols, data } = rows
  const groups = [...new Set(among.map(groupOf))].sort((a, b) => a - b)
  const chosen: number[] = []
  for (const group of groups.filter((g) => g < m)) {
    const members = among.filter((i) => groupOf(i) === group)
    const mean = new Float64Array(cols)
    for (const i of members) for (let t = 0; t < cols; t++) mean[t]! += data[i * cols + t]! / members.length
    const toMean = (i: number) => squaredDistance(data, i * cols, mean, 0, cols)
    chosen.push(members.reduce((best, i) => (toMean(i) < toMean(best) ? i : best)))
  }
  for (;;) {
    const distance = (i: number) => {
      const own = chosen.filter((l) => groupOf(l) === groupOf(i))
      return own.length === 0 ? 0 : Math.min(...own.map((l) => between(rows, i, l)))
    }
    const farthest = among.reduce((best, i) => (distance(i) > distance(best) ? i : best))
    if (chosen.length >= m || !(distance(farthest) > 0)) return chosen
    chosen.push(farthest)
  }
}

describe('farthest-first landmarks', () => {
  it('are those of numpy', () => {
    const { cases } = golden
    expect(cases.length).toBeGreaterThan(2)
    for (const { rows, m, landmarks, distances } of cases) {
      const matrix = matrixFromRows(rows)
      const found = [...farthestFirstRows(matrix, m)]
      expect(found).toEqual(landmarks)
      expect(rows.map((_, i) => Math.sqrt(Math.min(...found.map((j) => between(matrix, i, j)))))).toEqual(
        distances.map((distance) => expect.closeTo(distance, 12) as number),
      )
    }
  })

  it('come nearer and nearer to those chosen before', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: -50, max: 50 }), fc.double({ min: -9, max: 9, noNaN: true })), {
          minLength: 2,
          maxLength: 60,
        }),
        (rows) => {
          const matrix = matrixFromRows(rows)
          const found = [...farthestFirstRows(matrix, 20)]
          const distances = found
            .slice(1)
            .map((row, k) => Math.min(...found.slice(0, k + 1).map((j) => between(matrix, row, j))))
          expect(distances).toEqual([...distances].sort((a, b) => b - a))
        },
      ),
    )
  })

  it('begins nearest to the mean and goes on with the row farthest from all landmarks', () => {
    const rows = matrixFromRows([
      [0, 0],
      [1, 0],
      [9, 0],
      [2, 0],
      [2, 5],
    ])
    expect([...farthestFirstRows(rows, 4)]).toEqual([3, 2, 4, 0])
  })

  it('is the definition, whatever the rows, groups and choice of rows', () => {
    const value = fc.oneof(
      fc.integer({ min: -3, max: 3 }),
      fc.double({ min: -1e3, max: 1e3, noNaN: true }),
      fc.constantFrom(1e200, -1e200),
    )
    const cases = fc.integer({ min: 1, max: 40 }).chain((n) =>
      fc.record({
        data: fc.array(value, { minLength: 3 * n, maxLength: 3 * n }),
        groups: fc.array(fc.nat(4), { minLength: n, maxLength: n }),
        keep: fc.array(fc.boolean(), { minLength: n, maxLength: n }),
        m: fc.integer({ min: 1, max: 12 }),
      }),
    )
    fc.assert(
      fc.property(cases, ({ data, groups, keep, m }) => {
        const rows = matrixOf(groups.length, 3, Float64Array.from(data))
        const all = groups.map((_, i) => i)
        expect([...farthestFirstRows(rows, m)]).toEqual(byDefinition(rows, m, all, () => 0))
        const among = all.filter((i) => keep[i])
        if (among.length === 0) return
        const of = Uint32Array.from(groups)
        const found = farthestFirstRows(rows, m, { among: Uint32Array.from(among), groups: { of, count: 5 } })
        expect([...found]).toEqual(byDefinition(rows, m, among, (i) => groups[i]!))
      }),
      { numRuns: 300 },
    )
  })

  it.each([1, 2, 3])('is the definition among rows of many blocks, many of them as far (seed %i)', (seed) => {
    const rng = createRng(seed)
    const n = 700
    const rows = matrixOf(
      n,
      3,
      Float64Array.from({ length: 3 * n }, () => Math.round(3 * rng.nextNormal())),
    )
    const of = Uint32Array.from({ length: n }, () => rng.nextBelow(3))
    const among = Uint32Array.from({ length: n }, (_, i) => i).filter((i) => i % 7 !== seed)
    const found = farthestFirstRows(rows, 30, { among, groups: { of, count: 3 } })
    expect([...found]).toEqual(byDefinition(rows, 30, [...among], (i) => of[i]!))
  })

  it('stops when every row is a landmark or equals one', () => {
    const rows = matrixOf(
      50,
      2,
      Float64Array.from({ length: 100 }, (_, i) => Math.floor(i / 2) % 3),
    )
    expect(farthestFirstRows(rows, 10)).toHaveLength(3)
  })

  it('finds a rare kind of row, whose copies random rows would miss', () => {
    const rows = clusteredRows(3000, 4)
    rows.data.fill(40, 1234 * 4, 1235 * 4)
    expect([...farthestFirstRows(rows, 10)]).toContain(1234)
  })
})

describe('the option landmarks', () => {
  const names = DETECTOR_NAMES.filter((name) =>
    (DETECTORS[name].options as readonly string[]).includes('landmarks'),
  )
  const rows = clusteredRows(200, 3)
  // a kind of its own, of one row
  rows.data.set([40, 40, 40], 3 * 123)
  const landmarksOf = (model: DetectorModel): Matrix =>
    'embedding' in model
      ? model.embedding.landmarks
      : (model as Extract<DetectorModel, { kind: 'nearest' }>).nearestLandmark.landmarks
  const trained = (detector: (typeof names)[number], landmarks?: LandmarkChoice): DetectorModel =>
    fitDetector(
      rows,
      checkParameters({ detector, m: 12, ...(landmarks === undefined ? {} : { landmarks }) }),
      createRng(3),
    )

  it('is of every detector that has landmarks', () => {
    expect(names).toEqual(DETECTOR_NAMES.filter((name) => /^oc-|^nearest$/.test(name)))
  })

  it.each(names)('%s: covers all rows, and is random unless asked for', (name) => {
    const chosen = landmarksOf(trained(name, 'farthest-first'))
    expect(chosen).toEqual(
      matrixFromRows([...farthestFirstRows(rows, 12)].map((i) => [...rows.data.subarray(3 * i, 3 * i + 3)])),
    )
    expect([...chosen.data].filter((x) => x === 40)).toHaveLength(3)
    expect(trained(name)).toEqual(trained(name, 'random'))
    expect(landmarksOf(trained(name))).not.toEqual(chosen)
  })

  it('says why there are fewer', () => {
    const few = matrixOf(
      50,
      2,
      Float64Array.from({ length: 100 }, (_, i) => Math.floor(i / 2) % 3),
    )
    const parameters = checkParameters({ detector: 'nearest', m: 9, landmarks: 'farthest-first' })
    const { notes } = fitDetector(few, parameters, createRng(1)).fitReport
    expect(notes).toContain('m lowered from 9 to 3: every training row equals one of these landmarks')
  })
})
