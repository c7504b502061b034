/**
 * A picture that stands alone: Observable Plot's marks in an SVG of our own, with a title, a description in words, a
 * white ground and a legend, so that it is the same wherever it is shown.
 */
import * as Plot from '@observablehq/plot'
import { parseHTML } from 'linkedom'
import { escapeHtml } from './html-text.js'

export interface Figure {
  readonly title: string
  /** What it shows, for those who do not see it. */
  readonly description: string
  readonly width: number
  readonly height: number
  /** Names and colours, in a line above the plot; none when it is empty. */
  readonly legend: readonly (readonly [name: string, colour: string])[]
  readonly plot: Plot.PlotOptions
}

/** Legible on white, and apart from each other for most who see colours differently. */
export const PALETTE: readonly string[] = [
  '#1b6a8a',
  '#c2410c',
  '#4d7c0f',
  '#7e22ce',
  '#a16207',
  '#0f766e',
  '#be185d',
  '#475569',
  '#1d4ed8',
  '#854d0e',
  '#15803d',
  '#9f1239',
]

const HEAD_HEIGHT = 50

export function renderFigure({ title, description, width, height, legend, plot }: Figure): string {
  const { document } = parseHTML('<!doctype html><html><body></body></html>')
  const drawn = Plot.plot({ ...plot, document, className: 'plot', width, height })
  drawn.querySelector('style')?.remove()
  const marks = drawn.innerHTML
    .replace(/plot-clip-\d+/g, 'clip')
    .replace(/-?\d+\.\d{3,}(?:e-?\d+)?/g, (digits) => String(Number(Number(digits).toFixed(2))))
    .replace(/ aria-(?:label|hidden|description)="[^"]*"/g, '')
  let x = 12
  const entries = legend.map(([name, colour]) => {
    const at = x
    x += 30 + 7 * name.length
    return `<circle cx="${at}" cy="34" r="5" fill="${colour}"/><text x="${at + 9}" y="38">${escapeHtml(name)}</text>`
  })
  const total = height + HEAD_HEIGHT
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${total}" width="${width}" height="${total}" role="img" aria-labelledby="title desc" font-family="system-ui, sans-serif" font-size="12"><title id="title">${escapeHtml(title)}</title><desc id="desc">${escapeHtml(description)}</desc><rect width="${width}" height="${total}" fill="white"/><text x="12" y="18" font-weight="600">${escapeHtml(title)}</text>${entries.join('')}<g transform="translate(0 ${HEAD_HEIGHT})" fill="currentColor" text-anchor="middle">${marks}</g></svg>
`
}
