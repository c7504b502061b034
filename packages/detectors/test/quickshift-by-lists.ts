/**
 * QuickShift++ as it is written down: lists of all neighbours, every mutual pair joined, every point compared with
 * every other for a denser one. n² time and more, for tests of the one that looks at next to nothing.
 */
import { exp, log, type Matrix } from '@oddflow/core'
import { squaredDistance, squaredDistances } from '@oddflow/linalg'

/** The k nearest rows of each row, itself included, by distance and then index. */
export function nearestNeighbours({ rows: n, cols, data }: Matrix, neighbours: number) {
  const k = Math.min(neighbours, n)
  const indices = new Uint32Array(n * k)
  const squaredRadii = new Float64Array(n)
  const squares = new Float64Array(n)
  for (let i = 0; i < n; i++) {
    squaredDistances(data, i * cols, data, 0, n, cols, squares, 0)
    const radius = squares.slice().sort()[k - 1]!
    const near = Array.from(squares.keys()).filter((j) => squares[j]! <= radius)
    indices.set(near.sort((a, b) => squares[a]! - squares[b]! || a - b).slice(0, k), i * k)
    squaredRadii[i] = radius
  }
  return { k, indices, squaredRadii }
}

export function quickShiftByLists(points: Matrix, neighbours: number, beta: number) {
  const { rows: n, cols: d, data } = points
  const { k, indices, squaredRadii } = nearestNeighbours(points, neighbours)
  const listOf = (i: number) => indices.subarray(i * k, (i + 1) * k)
  const distance = (i: number, j: number) => squaredDistance(data, i * d, data, j * d, d)
  const radii = squaredRadii.map(Math.sqrt)
  const order = Array.from(radii.keys()).sort((a, b) => radii[a]! - radii[b]! || a - b)

  const component = Int32Array.from({ length: n }, (_, i) => i)
  const marked = new Set<number>()
  const inGraph = new Set<number>()
  const join = (a: number, b: number) => {
    const [into, gone] = [component[a]!, component[b]!]
    if (into === gone) return
    if (marked.has(gone)) marked.add(into)
    component.forEach((c, i) => {
      if (c === gone) component[i] = into
    })
  }
  const enter = (p: number) => {
    inGraph.add(p)
    for (const q of listOf(p)) if (inGraph.has(q) && listOf(q).includes(p)) join(p, q)
  }
  const cores = new Int32Array(n).fill(-1)
  let count = 0
  const mark = (p: number, upTo: number) => {
    const c = component[p]!
    if (marked.has(c)) return
    marked.add(c)
    for (let i = 0; i < n; i++) if (component[i] === c && radii[i]! <= upTo) cores[i] = count
    count++
  }
  const shrink = exp(log(1 - beta) / d)
  let added = 0
  let considered = 0
  for (const p of order) {
    while (added < n && radii[order[added]!]! < radii[p]!) enter(order[added++]!)
    while (radii[order[considered]!]! < radii[p]! * shrink) mark(order[considered++]!, radii[p]!)
  }
  if (count === 0) {
    while (added < n) enter(order[added++]!)
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) if (distance(i, j) === 0) join(i, j)
    for (let i = 0; i < n; i++) mark(i, Number.POSITIVE_INFINITY)
  }

  const parent = Array.from({ length: n }, (_, i) => i)
  for (let i = 0; i < n; i++) {
    if (cores[i]! >= 0) {
      parent[i] = cores.indexOf(cores[i]!)
      continue
    }
    for (let j = 0; j < n; j++) {
      const best = parent[i]!
      if (radii[j]! < radii[i]! && (best === i || distance(i, j) < distance(i, best))) parent[i] = j
    }
  }
  const rootOf = (i: number): number => (parent[i] === i ? i : rootOf(parent[i]!))
  const numbers = new Map<number, number>()
  const labels = Uint32Array.from(parent, (_, i) => {
    const root = rootOf(i)
    if (!numbers.has(root)) numbers.set(root, numbers.size)
    return numbers.get(root)!
  })
  return { labels, count: numbers.size, cores }
}
