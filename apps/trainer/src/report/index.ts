/**
 * The report of `demo` and `evaluate`: one HTML page without scripts that loads nothing. It depends on the given data
 * alone: no clock, no locale, no randomness. Charts: docs/decisions/0004-report-charts.md.
 */

import {
  chartSvg,
  drawEmbedding,
  embeddingCaption,
  embeddingFrame,
  embeddingPlot,
  rocFrame,
  rocPlot,
  standaloneSvg,
} from './charts.js'
import {
  cutText,
  formatBytes,
  formatCount,
  formatDuration,
  formatNumber,
  formatPercent,
  formatQuantity,
  formatRatio,
  formatTime,
  html,
  type Markup,
  NAME_LIMIT,
  name,
  pageStyle,
  standaloneStyle,
  trusted,
} from './format.js'
import {
  FLAGGED_LIMIT,
  type FlaggedFlow,
  type FlowLabel,
  type ReportCapture,
  type ReportData,
  type ReportEmbedding,
  type ReportRoc,
  type ReportScores,
} from './report-data.js'
import { binScores, scoreCaption, scoreFrame, scorePlot } from './score-chart.js'

// On a narrow screen each row becomes a card (format.ts), which is no table to some browsers: roles name its parts.

interface Column<Row> {
  label: string
  /** Right-aligned on a wide screen. */
  numeric?: boolean
  /** Share of the table's width: one of the `w-` classes in format.ts. */
  width: 'name' | 'address' | 'time' | 'number' | 'rate' | 'word'
  cell: (row: Row) => Markup | string
}

const ONE_PACKET_COLUMN: Column<ReportCapture> = {
  label: 'One-packet',
  width: 'number',
  numeric: true,
  cell: (c) => formatCount(c.onePacketFlows),
}

function captureTable(captures: readonly ReportCapture[]): Markup {
  if (captures.length === 0) return html`<p class="empty">No capture was scored.</p>`
  const columns: Column<ReportCapture>[] = [
    { label: 'Capture', width: 'name', cell: (c) => name(c.name) },
    { label: 'Role', width: 'word', cell: (c) => labelTag(c.label) },
    {
      label: 'Packets',
      width: 'number',
      numeric: true,
      cell: (c) => (c.packets === null ? 'rows only' : formatCount(c.packets)),
    },
    { label: 'Flows', width: 'number', numeric: true, cell: (c) => formatCount(c.flows) },
    ...(captures.some((c) => c.onePacketFlows > 0) ? [ONE_PACKET_COLUMN] : []),
    {
      label: 'Flagged',
      width: 'rate',
      numeric: true,
      cell: (c) =>
        html`${formatCount(c.flagged)}${c.flows > 0 && html` (${formatPercent(c.flagged / c.flows)})`}`,
    },
  ]
  return table('Captures scored', columns, captures)
}

function flaggedTable(rows: readonly FlaggedFlow[], label: string): Markup {
  const columns: Column<FlaggedFlow>[] = [
    { label: 'From', width: 'address', cell: (f) => name(f.source) },
    { label: 'To', width: 'address', cell: (f) => name(f.destination) },
    { label: 'Protocol', width: 'word', cell: (f) => name(f.protocol) },
    { label: 'Start (UTC)', width: 'time', cell: (f) => formatTime(f.startMicros) },
    { label: 'Duration', width: 'number', numeric: true, cell: (f) => formatDuration(f.durationMicros) },
    { label: 'Packets', width: 'number', numeric: true, cell: (f) => formatCount(f.packets) },
    { label: 'Bytes', width: 'number', numeric: true, cell: (f) => formatBytes(f.bytes) },
    {
      label: 'Score',
      width: 'number',
      numeric: true,
      cell: (f) => (f.rule === 'one-packet' || f.score === null ? 'one packet' : formatNumber(f.score)),
    },
    { label: 'Capture', width: 'name', cell: (f) => name(f.capture) },
    { label: 'Truth', width: 'word', cell: (f) => labelTag(f.label) },
  ]
  return table(label, columns, rows, ({ reasons }) =>
    reasons.length === 0 ? null : name(reasons.join('; '), REASONS_LIMIT),
  )
}

/** Code points. */
const REASONS_LIMIT = 400

/** @param under what stands under a row, over all columns */
function table<Row>(
  label: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  under: (row: Row) => Markup | null = () => null,
): Markup {
  const head = columns.map(
    (c) =>
      html`<th role="columnheader" scope="col" class="w-${c.width}${c.numeric === true && ' n'}">${c.label}</th>`,
  )
  const body = rows.map((row) => {
    const more = under(row)
    return html`<tr role="row"${more !== null && html` class="told"`}>${columns.map((c) => html`<td role="cell" data-label="${c.label}" class="w-${c.width}${c.numeric === true && ' n'}"><span>${c.cell(row)}</span></td>`)}</tr>\n${more !== null && html`<tr role="row" class="why"><td role="cell" data-label="Why" class="w-name" colspan="${columns.length}"><span>${more}</span></td></tr>\n`}`
  })
  return html`<table role="table" aria-label="${label}"><thead role="rowgroup"><tr role="row">${head}</tr></thead><tbody role="rowgroup">\n${body}</tbody></table>`
}

function labelTag(label: FlowLabel): Markup {
  return html`<span class="tag ${label}">${label === 'novel' ? '✕' : '●'} ${label}</span>`
}

function keyFigures(data: ReportData): Markup {
  const sum = (captures: readonly ReportCapture[], of: 'flows' | 'flagged' | 'onePacketFlows'): number =>
    captures.reduce((total, capture) => total + capture[of], 0)
  const figures: Markup[] = []
  if (data.roc !== null) {
    figures.push(figure('AUC', formatRatio(data.roc.auc), '1 is perfect, 0.5 is chance'))
    for (const { fpr, tpr } of data.roc.tprAtFpr)
      figures.push(
        figure(`Found at ${formatPercent(fpr)} false positives`, formatPercent(tpr), 'of novel flows'),
      )
  }
  for (const [label, term] of [
    ['normal', 'False positives'],
    ['novel', 'Novel flows found'],
  ] as const) {
    const captures = data.captures.filter((c) => c.label === label)
    const flows = sum(captures, 'flows')
    if (flows > 0)
      figures.push(
        figure(
          term,
          formatPercent(sum(captures, 'flagged') / flows),
          `${formatCount(sum(captures, 'flagged'))} of ${formatQuantity(flows, `${label} flow`)}`,
        ),
      )
  }
  figures.push(
    figure(
      'Flagged',
      formatCount(data.flagged.total),
      `of ${formatQuantity(sum(data.captures, 'flows'), 'flow')}`,
    ),
  )
  const onePacketFlows = sum(data.captures, 'onePacketFlows')
  if (onePacketFlows > 0) {
    figures.push(figure('One-packet flows', formatCount(onePacketFlows), 'judged by a rule, without a score'))
  }
  return html`<dl class="figures">${figures}</dl>`
}

function figure(term: string, value: string, detail: string): Markup {
  return html`<div><dt>${term}</dt><dd>${value}</dd><dd class="detail">${detail}</dd></div>\n`
}

/** The charts that the data allow; the last of an odd number takes the whole width. */
function charts(data: ReportData): Markup {
  const parts = [
    scoreSection(data.scores),
    data.roc !== null && rocSection(data.roc),
    data.embedding !== null && embeddingSection(data.embedding),
  ].filter((part): part is Part => part !== false)
  const wideFrom = parts.length % 2 === 1 ? parts.length - 1 : parts.length
  const sections = parts.map(
    ({ id, heading, body }, i) =>
      html`<section aria-labelledby="${id}"${i >= wideFrom && html` class="wide"`}><h2 id="${id}">${heading}</h2>${body}</section>\n`,
  )
  return html`<div class="charts">${sections}</div>`
}

interface Part {
  id: string
  heading: string
  body: Markup
}

function scoreSection(scores: ReportScores): Part {
  const bins = binScores(scores)
  const body =
    bins === null
      ? html`<p class="empty">No flow has a score to draw.</p>`
      : html`<figure><div>${chartSvg(scoreFrame(scores, 'scores'), scorePlot(bins))}</div><figcaption>
<p>A score says how normal a flow looks: the higher, the more normal. Flows at or left of the dashed line (threshold ${formatNumber(scores.threshold)}) are flagged as new. The less the two groups overlap, the better the model tells them apart.</p><p>${scoreCaption(bins.scale)}</p></figcaption></figure>`
  return { id: 'h-scores', heading: 'Scores', body }
}

function rocSection(roc: ReportRoc): Part {
  const body = html`<figure><div>${chartSvg(rocFrame(roc, 'roc'), rocPlot(roc))}</div><figcaption>
<p>The ROC curve shows, for every possible threshold, how many novel flows are found (upwards) at the price of how many normal flows flagged in error (rightwards). A curve close to the upper left corner is good; the dashed diagonal is guessing.</p>
<p>Diamond: this model's threshold, which finds ${formatPercent(roc.threshold.tpr)} at ${formatPercent(roc.threshold.fpr)} false positives.${roc.tprAtFpr.length > 0 && ` Circles: ${roc.tprAtFpr.map(({ fpr, tpr }) => `${formatPercent(tpr)} found at ${formatPercent(fpr)}`).join(', ')}.`}</p></figcaption></figure>`
  return { id: 'h-roc', heading: 'ROC curve', body }
}

function mixtureText(components: number): string {
  return components === 0
    ? 'A hyperplane in all of its dimensions tells normal from new.'
    : `The ellipses are the mixture that was learned from normal traffic, ${formatQuantity(components, 'component')} at one and two standard deviations. A flow far from every ellipse scores low; one that seems close may still be far off in a dimension that is not drawn.`
}

function embeddingSection(embedding: ReportEmbedding): Part {
  const drawing = drawEmbedding(embedding)
  const key = html`<ul class="key"><li><svg class="chart" viewBox="0 0 20 16" aria-hidden="true"><circle class="dot-normal" cx="10" cy="8" r="4"/></svg>normal flow</li><li><svg class="chart" viewBox="0 0 20 16" aria-hidden="true"><path class="dot-novel" d="M6,4l8,8M14,4l-8,8"/></svg>novel flow</li><li><svg class="chart" viewBox="0 0 20 16" aria-hidden="true"><ellipse class="ellipse-1" cx="10" cy="8" rx="9" ry="6"/></svg>component, 1σ</li><li><svg class="chart" viewBox="0 0 20 16" aria-hidden="true"><ellipse class="ellipse-2" cx="10" cy="8" rx="9" ry="6"/></svg>2σ</li></ul>`
  const body =
    drawing === null
      ? html`<p class="empty">There is nothing to draw in the embedding.</p>`
      : html`<figure><div>${key}${chartSvg(embeddingFrame(embedding, drawing, 'embedding'), embeddingPlot(drawing))}</div><figcaption>
<p>Each flow is placed by the kernel embedding; this is dimensions 1 and 2 of ${formatCount(embedding.dimensions)}. ${mixtureText(embedding.ellipses.length)}</p><p>${embeddingCaption(drawing)}</p></figcaption></figure>`
  return { id: 'h-embedding', heading: 'Embedding and mixture', body }
}

export type {
  FlaggedFlow,
  ReportData,
  ReportEllipse,
  ReportEmbedding,
  ReportFlagged,
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
<p class="subtitle">${name(data.subtitle, LINE_LIMIT)}</p>
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

/** The ROC as a standalone SVG file that follows the reader's light or dark setting. */
export function renderRocSvg(roc: ReportRoc): string {
  return standaloneSvg(rocFrame(roc, 'roc'), rocPlot(roc), standaloneStyle)
}

function flagged({ flagged: { rows, total, ofDevice } }: ReportData): Markup {
  const shown = rows.slice(0, FLAGGED_LIMIT)
  const count =
    total > shown.length
      ? html`<p>${formatCount(shown.length)} of ${formatQuantity(total, 'flagged flow')}.</p>`
      : html`<p>${total === 1 ? 'The one flow' : `All ${formatQuantity(total, 'flow')}`} flagged as new.</p>`
  const rule = shown.some((flow) => flow.rule === 'one-packet')
  const body =
    shown.length === 0
      ? html`<p class="empty">No flow was flagged as new.</p>`
      : html`${count}${rule && html`<p>“One packet” in place of a score: the model's features need two packets, so the one-packet rule decides.</p>`}${byDevice(shown, ofDevice)}`
  return html`<section aria-labelledby="h-flagged"><h2 id="h-flagged">Flows flagged as new</h2>
${body}</section>`
}

/** A table of each device, that of the most surprising flow first; one table where no device is known. */
function byDevice(shown: readonly FlaggedFlow[], ofDevice: Readonly<Record<string, number>>): Markup {
  const groups = new Map<string | null, FlaggedFlow[]>()
  for (const flow of shown) {
    const group = groups.get(flow.device)
    if (group === undefined) groups.set(flow.device, [flow])
    else group.push(flow)
  }
  if (groups.size === 1 && groups.has(null)) return flaggedTable(shown, 'Flows flagged as new')
  const sections = Array.from(groups, ([device, flows]) => {
    const all = ofDevice[device ?? ''] ?? flows.length
    const part = all > flows.length ? `${formatCount(flows.length)} of ` : ''
    const who = device === null ? html`No device known` : html`Device ${name(device)}`
    const label = device === null ? 'Flagged flows of no known device' : `Flagged flows of device ${device}`
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
