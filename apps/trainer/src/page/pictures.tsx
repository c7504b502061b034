/** The page's pictures: when flows began, and the map of flows. */
import type { FlowMap, Histogram } from './worker.js'

const WIDTH = 640
const HEIGHT = 120
const MAP_HEIGHT = 360
const MARGIN = 10

/** Flows that began in each part of the time; novel ones at the bottom of each bar. */
export function Bars({ times }: { readonly times: Histogram }) {
  const { beginMicros, endMicros, counts, novel } = times
  const most = Math.max(...counts)
  const width = WIDTH / counts.length
  const bar = (count: number, i: number, kind: string) => {
    const height = count === 0 ? 0 : Math.max(2, (HEIGHT * count) / most)
    return <rect class={kind} x={i * width + 0.5} y={HEIGHT - height} width={width - 1} height={height} />
  }
  const all = counts.reduce((sum, count) => sum + count, 0)
  const found = novel.reduce((sum, count) => sum + count, 0)
  const said = `${all} flows over time, at most ${most} in a part${found > 0 ? `; ${found} are new` : ''}`
  return (
    <figure>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        role="img"
        aria-label={said}
        preserveAspectRatio="none"
        class="bars"
      >
        {counts.map((count, i) => bar(count, i, 'normal'))}
        {novel.map((count, i) => bar(count, i, 'novel'))}
      </svg>
      <figcaption>
        Flows that began between {timeText(beginMicros)} and {timeText(endMicros)}
        {found > 0 ? ', new ones in red at the bottom' : ''}.
      </figcaption>
    </figure>
  )
}

const timeText = (micros: number): string => new Date(micros / 1000).toLocaleString()

/** An inverse hyperbolic sine keeps flows far out in the picture. */
export function FlowMapPicture({ map }: { readonly map: FlowMap }) {
  const kinds = [map.remembered, map.normal, map.novel].map((points) => points.map(Math.asinh))
  const range = (axis: number): readonly [number, number] => {
    let low = -1
    let high = 1
    for (const points of kinds) {
      for (let i = axis; i < points.length; i += 2) {
        low = Math.min(low, points[i]!)
        high = Math.max(high, points[i]!)
      }
    }
    return [low, high]
  }
  const [left, right] = range(0)
  const [bottom, top] = range(1)
  const x = (value: number): number => MARGIN + ((WIDTH - 2 * MARGIN) * (value - left)) / (right - left)
  const y = (value: number): number => MARGIN + ((MAP_HEIGHT - 2 * MARGIN) * (top - value)) / (top - bottom)
  // one path for all points of a kind: thousands of elements would make the page slow
  const dots = (points: Float32Array): string => {
    const parts: string[] = []
    for (let i = 0; i < points.length; i += 2)
      parts.push(`M${x(points[i]!).toFixed(1)} ${y(points[i + 1]!).toFixed(1)}h0`)
    return parts.join('')
  }
  const crosses = (points: Float32Array): string => {
    const parts: string[] = []
    for (let i = 0; i < points.length; i += 2) {
      const [a, b] = [x(points[i]!), y(points[i + 1]!)]
      parts.push(`M${(a - 4).toFixed(1)} ${(b - 4).toFixed(1)}l8 8m0-8l-8 8`)
    }
    return parts.join('')
  }
  const [remembered, normal, novel] = kinds as [Float32Array, Float32Array, Float32Array]
  const count = (points: Float32Array): number => points.length / 2
  return (
    <figure>
      <svg
        viewBox={`0 0 ${WIDTH} ${MAP_HEIGHT}`}
        role="img"
        aria-label={`Map of ${count(remembered)} remembered, ${count(normal)} normal and ${count(novel)} new flows`}
        class="map"
      >
        <path class="remembered" d={dots(remembered)} />
        <path class="normal" d={dots(normal)} />
        <path class="novel" d={crosses(novel)} />
      </svg>
      <figcaption>
        The map shows flows by the two directions in which normal ones differ most. Grey squares: flows that
        the model remembers. Blue dots: normal flows of this capture. Red crosses: new ones; they may lie
        among the others where they differ in another way. At most 2,000 of a kind are drawn.
      </figcaption>
    </figure>
  )
}
