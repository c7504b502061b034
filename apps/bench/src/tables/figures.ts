import * as Plot from '@observablehq/plot'
import { parseHTML } from 'linkedom'

export { Plot }

/** Text into HTML and SVG, in elements and in quoted attributes. What comes here holds no control characters:
 * trials and manifests with any are refused when they are read. */
const REFERENCES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (c) => REFERENCES[c] ?? c)
}

/** An SVG that stands alone: Plot's marks with a title, a description in words, a white ground and a legend. */
interface Figure {
  readonly title: string
  /** What it shows, for those who do not see it. */
  readonly description: string
  readonly width: number
  readonly height: number
  /** Names and colours, in lines above the plot; none when it is empty. */
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

/** With a legend of one line. */
const HEAD_HEIGHT = 50
const LEGEND_LINE = 18

export function renderFigure({ title, description, width, height, legend, plot }: Figure): string {
  const { document } = parseHTML('<!doctype html><html><body></body></html>')
  const drawn = Plot.plot({ ...plot, document, className: 'plot', width, height })
  drawn.querySelector('style')?.remove()
  const marks = drawn.innerHTML
    .replace(/plot-clip-\d+/g, 'clip')
    .replace(/-?\d+\.\d{3,}(?:e-?\d+)?/g, (digits) => String(Number(Number(digits).toFixed(2))))
    .replace(/ aria-(?:label|hidden|description)="[^"]*"/g, '')
  let [x, y] = [12, 34]
  const entries = legend.map(([name, colour]) => {
    const size = 30 + 7 * name.length
    if (x > 12 && x + size > width) [x, y] = [12, y + LEGEND_LINE]
    const at = x
    x += size
    return `<circle cx="${at}" cy="${y}" r="5" fill="${colour}"/><text x="${at + 9}" y="${y + 4}">${escapeHtml(name)}</text>`
  })
  const head = HEAD_HEIGHT + y - 34
  const total = height + head
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${total}" width="${width}" height="${total}" role="img" aria-labelledby="title desc" font-family="system-ui, sans-serif" font-size="12"><title id="title">${escapeHtml(title)}</title><desc id="desc">${escapeHtml(description)}</desc><rect width="${width}" height="${total}" fill="white"/><text x="12" y="18" font-weight="600">${escapeHtml(title)}</text>${entries.join('')}<g transform="translate(0 ${head})" fill="currentColor" text-anchor="middle">${marks}</g></svg>
`
}

/** Of a scale. */
export const LOGARITHMIC = {
  type: 'log',
  tickFormat: (value: number) => String(Number(value.toPrecision(2))),
} as const

export interface CurvePoint {
  readonly panel: string
  readonly curve: string
  readonly x: number
  readonly y: number
}

/** A curve of each name in each panel; panels and curves in the order in which they first come. */
export function renderCurves(
  title: string,
  points: readonly CurvePoint[],
  [xLabel, yLabel]: readonly [string, string],
  isLogarithmic = false,
): string {
  const panels = [...new Set(points.map(({ panel }) => panel))]
  const curves = [...new Set(points.map(({ curve }) => curve))]
  const colours = curves.map((_, i) => PALETTE[i % PALETTE.length]!)
  const channels = { x: 'x', y: 'y', fx: 'panel' } as const
  return renderFigure({
    title,
    description: `${yLabel} by ${xLabel}, for ${panels.join('; ')}: ${curves.join('; ')}`,
    width: 340 * panels.length,
    height: 360,
    legend: curves.map((curve, i) => [curve, colours[i]!]),
    plot: {
      marginTop: 34,
      marginLeft: 54,
      marginRight: 20,
      marginBottom: 44,
      x: { label: xLabel },
      y: { label: yLabel, grid: true, ...(isLogarithmic ? LOGARITHMIC : {}) },
      fx: { domain: panels, label: null },
      color: { domain: curves, range: colours },
      marks: [
        Plot.frame({ stroke: '#ccc' }),
        Plot.line(points, { ...channels, z: 'curve', stroke: 'curve', strokeWidth: 1.6 }),
        Plot.dot(points, { ...channels, fill: 'curve', r: 1.8 }),
      ],
    },
  })
}
