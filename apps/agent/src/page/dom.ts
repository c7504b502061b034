import type { ScoreMinute } from './api.js'

/** Elements made of text nodes and attributes: nothing that the agent tells is ever read as markup. */
type Value = string | number | boolean | (() => void)

/** A function among the properties listens to the event that it is named for. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Readonly<Record<string, Value>> = {},
  ...children: readonly (Node | string | null)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag)
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === 'function') made.addEventListener(name, value)
    else if (value === true) made.setAttribute(name, '')
    else if (value !== false) made.setAttribute(name, String(value))
  }
  made.append(...children.filter((child) => child !== null))
  return made
}

export function svgElement(
  tag: string,
  attributes: Readonly<Record<string, string | number>>,
  text = '',
): SVGElement {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag)
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value))
  made.textContent = text
  return made
}

/** An element of the page's own document. */
export function byId<E extends HTMLElement = HTMLElement>(id: string): E {
  const found = document.getElementById(id)
  if (found === null) throw new Error(`the page has no #${id}`)
  return found as E
}

/** Sets a text that has changed; what is read aloud is not said again. */
export function setText(target: Element, text: string): void {
  if (target.textContent !== text) target.textContent = text
}

export function timeOf(micros: number): string {
  const time = new Date(micros / 1000)
  const isToday = time.toDateString() === new Date().toDateString()
  return isToday ? time.toLocaleTimeString() : time.toLocaleString()
}

export function numberText(value: number): string {
  return Number.isInteger(value) ? value.toLocaleString() : String(Number(value.toPrecision(4)))
}

/** "1 peer", "2 peers". */
export function countText(count: number, one: string): string {
  return `${numberText(count)} ${one}${count === 1 ? '' : 's'}`
}

/**
 * The score history as a picture: decisions of two hours, on an inverse hyperbolic sine, so that one far out does not
 * press the others flat. The text below it says the same for who does not see it.
 */

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
  return `${flows} flows were judged in the last ${minutes.length} minutes with traffic; ${novel} were unusual`
}
