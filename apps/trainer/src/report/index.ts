/**
 * The report of `demo` and `evaluate`: one HTML page that stands alone.
 *
 * The page has no script, loads nothing (its content security policy forbids it), and is made of the data given
 * and nothing else: no clock, no locale, no randomness, so the same data give the same bytes. Names that come
 * from traffic go through `html` (escape.ts) like all other text. `renderRocSvg` writes the ROC as a file of its
 * own. Charts: docs/decisions/0004-report-charts.md.
 */

import { cutText, html, type Markup, NAME_LIMIT, name, trusted } from './escape.js'
import { formatCount, formatQuantity } from './format.js'
import { FLAGGED_LIMIT, type FlaggedFlow, type ReportData, type ReportRoc } from './report-data.js'
import { rocFrame, rocPlot } from './roc-chart.js'
import { charts, keyFigures } from './sections.js'
import { standaloneSvg } from './svg.js'
import { captureTable, flaggedTable } from './tables.js'
import { pageStyle, standaloneStyle } from './theme.js'

export type {
  FlaggedFlow,
  FlowLabel,
  ReportCapture,
  ReportData,
  ReportEllipse,
  ReportEmbedding,
  ReportFact,
  ReportFlagged,
  ReportRoc,
  ReportScores,
} from './report-data.js'
export { FLAGGED_LIMIT } from './report-data.js'

const policy =
  "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

/** Most code points of a heading line and of a note: either may quote the name of a file. */
const LINE_LIMIT = 300
const NOTE_LIMIT = 2000

/** The whole page, ready to be written to a file in UTF-8. */
export function renderReport(data: ReportData): string {
  const version = cutText(data.oddflowVersion, NAME_LIMIT)
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${trusted(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="OddFlow ${version}">
<title>${cutText(data.title, LINE_LIMIT)} – OddFlow report</title>
<style>${trusted(pageStyle)}</style>
</head>
<body>
<header>
<h1>${name(data.title, LINE_LIMIT)}</h1>
${data.subtitle !== undefined && html`<p class="subtitle">${name(data.subtitle, LINE_LIMIT)}</p>`}
<p class="verdict">${name(data.verdictLine, LINE_LIMIT)}</p>
<p class="jump"><a href="#h-flagged">See the flows flagged</a></p>
${keyFigures(data)}
</header>
<main>
<section aria-label="Charts">
${charts(data)}
</section>
<section aria-labelledby="h-captures"><h2 id="h-captures">Captures</h2>
${captureTable(data.captures)}</section>
${notes(data)}
${model(data)}
${flagged(data)}
</main>
<footer><p>Made by OddFlow ${version}. This page holds all that it shows and loads nothing.</p></footer>
</body>
</html>
`
  return page.text
}

export interface RocSvgOptions {
  /** Title of the image; any text. */
  title?: string
}

/** The ROC as a standalone SVG file that follows the reader's light or dark setting. */
export function renderRocSvg(roc: ReportRoc, options: RocSvgOptions = {}): string {
  return standaloneSvg(rocFrame(roc, 'roc', options.title ?? 'ROC curve'), rocPlot(roc), standaloneStyle)
}

function flagged({ flagged: { rows, total, ofDevice = {} } }: ReportData): Markup {
  const shown = rows.slice(0, FLAGGED_LIMIT)
  const count =
    total > shown.length
      ? html`<p>${formatCount(shown.length)} of ${formatQuantity(total, 'flagged flow')}.</p>`
      : html`<p>${total === 1 ? 'The one flow' : `All ${formatQuantity(total, 'flow')}`} flagged as new.</p>`
  const rule = shown.some((flow) => flow.rule === 'one-packet')
  const body =
    shown.length === 0
      ? html`<p class="empty">${total === 0 ? 'No flow was flagged as new.' : `${formatQuantity(total, 'flow')} flagged; none is listed.`}</p>`
      : html`${count}${rule && html`<p>“One packet” in place of a score: the model's features need two packets, so the one-packet rule decides.</p>`}${byDevice(shown, ofDevice)}`
  return html`<section aria-labelledby="h-flagged"><h2 id="h-flagged">Flows flagged as new</h2>
${body}</section>`
}

/** A table of each device, that of the most surprising flow first; one table where no device is known. */
function byDevice(shown: readonly FlaggedFlow[], ofDevice: Readonly<Record<string, number>>): Markup {
  const groups = new Map<string | undefined, FlaggedFlow[]>()
  for (const flow of shown) {
    const group = groups.get(flow.device)
    if (group === undefined) groups.set(flow.device, [flow])
    else group.push(flow)
  }
  if (groups.size === 1 && groups.has(undefined)) return flaggedTable(shown, 'Flows flagged as new')
  const sections = Array.from(groups, ([device, flows]) => {
    const all = (device === undefined ? undefined : ofDevice[device]) ?? flows.length
    const part = all > flows.length ? `${formatCount(flows.length)} of ` : ''
    const who = device === undefined ? html`No device known` : html`Device ${name(device)}`
    const label =
      device === undefined ? 'Flagged flows of no known device' : `Flagged flows of device ${device}`
    return html`<h3>${who}: ${part}${formatQuantity(all, 'flow')}</h3>${flaggedTable(flows, label)}\n`
  })
  return html`<p>By device, the most surprising flow first. “Sent” and “received” are as the flow's initiator (From) sees them.</p>${sections}`
}

function model({ model: facts }: ReportData): Markup | false {
  const rows = facts.map(
    ({ label, value }) => html`<div><dt>${name(label)}</dt><dd>${name(value, LINE_LIMIT)}</dd></div>\n`,
  )
  return (
    facts.length > 0 &&
    html`<section aria-labelledby="h-model"><h2 id="h-model">Model</h2><dl class="facts">${rows}</dl></section>`
  )
}

function notes({ notes: lines }: ReportData): Markup | false {
  return (
    lines.length > 0 &&
    html`<section aria-labelledby="h-notes"><h2 id="h-notes">Notes</h2><ul class="notes">${lines.map((line) => html`<li>${name(line, NOTE_LIMIT)}</li>\n`)}</ul></section>`
  )
}
