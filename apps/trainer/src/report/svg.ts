/**
 * Observable Plot without a browser: marks in, the inside of an <svg> out.
 *
 * Plot draws into a document of linkedom's. Of what it makes only the marks are kept; the <svg> element around
 * them is ours, for four reasons. Plot's own <style> would be repeated for each chart. Its clip ids come from a
 * counter that runs for the life of the process, so that a second page would differ from the first; here they
 * are renumbered under the chart's own id. Coordinates carry sixteen digits where two decimals of a pixel do.
 * And the title and description that a screen reader needs are put first, as SVG wants them.
 *
 * Charts hold numbers and words of the program's own: no name from traffic comes near them, but for the title
 * of a standalone file, which goes through `html`.
 */

import * as Plot from '@observablehq/plot'
import { parseHTML } from 'linkedom'
import { html, type Markup, trusted } from './escape.js'

/** All charts are drawn on this width and scaled by CSS; text sizes follow the screen (theme.ts). */
export const CHART_WIDTH = 400

export interface ChartFrame {
  /** Unique in the page; letters, digits and hyphens. */
  id: string
  title: string
  /** What the chart shows, in words, for those who do not see it. */
  description: string
  height: number
}

/** Draws a plot and wraps it in an accessible <svg>. Inside a page it inherits the page's colours. */
export function chartSvg(frame: ChartFrame, options: Plot.PlotOptions): Markup {
  return html`<svg class="chart" viewBox="0 0 ${CHART_WIDTH} ${frame.height}" role="img" aria-labelledby="${frame.id}-title ${frame.id}-desc"><title id="${frame.id}-title">${frame.title}</title><desc id="${frame.id}-desc">${frame.description}</desc>${plotMarks(frame, options)}</svg>`
}

/** The same as a file of its own: namespace, size and a style for light and dark. */
export function standaloneSvg(frame: ChartFrame, options: Plot.PlotOptions, style: string): string {
  const size = 1.6
  const svg = html`<svg xmlns="http://www.w3.org/2000/svg" class="chart standalone" width="${CHART_WIDTH * size}" height="${frame.height * size}" viewBox="0 0 ${CHART_WIDTH} ${frame.height}" role="img" aria-labelledby="${frame.id}-title ${frame.id}-desc"><title id="${frame.id}-title">${frame.title}</title><desc id="${frame.id}-desc">${frame.description}</desc><style>${trusted(style)}</style><rect class="paper" width="100%" height="100%"/>${plotMarks(frame, options)}</svg>`
  return `<?xml version="1.0" encoding="UTF-8"?>\n${svg.text}\n`
}

function plotMarks(frame: ChartFrame, options: Plot.PlotOptions): Markup {
  const { document } = parseHTML('<!doctype html><html><body></body></html>')
  const drawn = Plot.plot({
    ...options,
    document,
    className: 'plot',
    width: CHART_WIDTH,
    height: frame.height,
  })
  drawn.querySelector('style')?.remove()
  return html`<g class="marks">${trusted(compact(drawn.innerHTML, frame.id))}</g>`
}

function compact(markup: string, id: string): string {
  const seen = new Map<string, string>()
  return (
    markup
      .replace(/plot-clip-\d+/g, (found) => {
        const known = seen.get(found) ?? `${id}-clip-${seen.size + 1}`
        seen.set(found, known)
        return known
      })
      .replace(/-?\d+\.\d{3,}(?:e-?\d+)?/g, (digits) => String(Number(Number(digits).toFixed(2))))
      // What a screen reader gets is the title, the description and the caption; Plot's labels of single marks
      // and ticks ("dot", "x-axis tick label") would only be noise inside one image.
      .replace(/ aria-(?:label|hidden)="[^"]*"/g, '')
  )
}
