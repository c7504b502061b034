/**
 * The score history as a picture: decisions of two hours, on an inverse hyperbolic sine, so that one far out does not
 * press the others flat. The text below it says the same for who does not see it.
 */
import type { ScoreMinute } from './api.js'
import { svgElement, timeOf } from './dom.js'

const HEIGHT = 176
const LEFT = 72
const MARGIN = 20
const LEAST_WIDTH = 240
const MICROS = 120 * 60_000_000

export function scoreChart(minutes: readonly ScoreMinute[], availableWidth: number): Element {
  const width = Math.max(LEAST_WIDTH, availableWidth)
  const scored = minutes.filter((minute) => minute.lowest !== null)
  const svg = svgElement('svg', {
    viewBox: `0 0 ${width} ${HEIGHT}`,
    role: 'img',
    'aria-label': describe(minutes),
  })
  const values = scored.flatMap(({ lowest, median }) => [Math.asinh(lowest ?? 0), Math.asinh(median ?? 0)])
  const [low, high] = [Math.min(-0.5, ...values), Math.max(0.5, ...values)]
  const end = minutes.at(-1)?.atMicros ?? 0
  const begin = Math.max(minutes[0]?.atMicros ?? 0, end - MICROS)
  const x = (micros: number): number =>
    LEFT + ((width - LEFT - MARGIN) * (micros - begin)) / Math.max(60_000_000, end - begin)
  const y = (decision: number): number =>
    MARGIN + ((HEIGHT - 2 * MARGIN) * (high - Math.asinh(decision))) / (high - low)
  svg.append(
    svgElement('line', { class: 'threshold', x1: LEFT, x2: width, y1: y(0), y2: y(0) }),
    svgElement('text', { x: 0, y: y(0) + 4 }, 'threshold'),
    svgElement('text', { x: LEFT, y: HEIGHT - 2 }, minutes.length === 0 ? '' : timeOf(begin)),
  )
  if (end > begin) {
    svg.append(svgElement('text', { x: width, y: HEIGHT - 2, 'text-anchor': 'end' }, timeOf(end)))
  }
  const line = scored.map(({ atMicros, median }) => `${x(atMicros).toFixed(1)},${y(median ?? 0).toFixed(1)}`)
  svg.append(svgElement('polyline', { class: 'median', points: line.join(' ') }))
  for (const { atMicros, lowest } of scored) {
    const decision = lowest ?? 0
    const isNovel = decision <= 0
    svg.append(
      svgElement('circle', {
        class: isNovel ? 'novel' : 'normal',
        cx: x(atMicros).toFixed(1),
        cy: y(decision).toFixed(1),
        r: isNovel ? 4 : 2.5,
      }),
    )
  }
  return svg
}

function describe(minutes: readonly ScoreMinute[]): string {
  const flows = minutes.reduce((sum, minute) => sum + minute.flows, 0)
  const novel = minutes.reduce((sum, minute) => sum + minute.novel, 0)
  return `${flows} flows were judged in the last ${minutes.length} minutes with traffic; ${novel} were new`
}
