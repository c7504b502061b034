/**
 * The parts of the page above the tables: the figures that answer first questions, and the charts, each with a
 * caption that teaches how to read it.
 */

import { drawEmbedding, embeddingCaption, embeddingFrame, embeddingPlot } from './embedding-chart.js'
import { html, type Markup } from './escape.js'
import { formatCount, formatNumber, formatPercent, formatQuantity, formatRatio } from './format.js'
import type { ReportCapture, ReportData, ReportEmbedding, ReportRoc, ReportScores } from './report-data.js'
import { rocFrame, rocPlot } from './roc-chart.js'
import { binScores, scoreCaption, scoreFrame, scorePlot } from './score-chart.js'
import { chartSvg } from './svg.js'

/** Whether anything in the data says which flows are novel. */
export function isLabelled(data: ReportData): boolean {
  return data.roc !== null || data.scores.novel.length > 0 || data.captures.some((c) => c.role === 'novel')
}

export function keyFigures(data: ReportData): Markup {
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
  for (const [role, term] of [
    ['normal', 'False positives'],
    ['novel', 'Novel flows found'],
  ] as const) {
    const captures = data.captures.filter((c) => c.role === role)
    const flows = sum(captures, 'flows')
    if (flows > 0)
      figures.push(
        figure(
          term,
          formatPercent(sum(captures, 'flagged') / flows),
          `${formatCount(sum(captures, 'flagged'))} of ${formatQuantity(flows, `${role} flow`)}`,
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
export function charts(data: ReportData): Markup {
  const labelled = isLabelled(data)
  const parts = [
    scoreSection(data.scores, labelled),
    data.roc !== null && rocSection(data.roc),
    data.embedding !== null && embeddingSection(data.embedding, labelled),
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

function scoreSection(scores: ReportScores, labelled: boolean): Part {
  const bins = binScores(scores)
  const body =
    bins === null
      ? html`<p class="empty">No flow has a score to draw.</p>`
      : html`<figure><div>${chartSvg(scoreFrame(scores, labelled, 'scores'), scorePlot(bins, labelled))}</div><figcaption>
<p>A score says how normal a flow looks: the higher, the more normal. Flows at or left of the dashed line (threshold ${formatNumber(scores.threshold)}) are flagged as new.${labelled && ' The less the two groups overlap, the better the model tells them apart.'}</p><p>${scoreCaption(bins.scale, labelled)}</p></figcaption></figure>`
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

function embeddingSection(embedding: ReportEmbedding, labelled: boolean): Part {
  const drawing = drawEmbedding(embedding)
  const key = html`<ul class="key"><li><svg class="chart" viewBox="0 0 20 16" aria-hidden="true"><circle class="dot-normal" cx="10" cy="8" r="4"/></svg>${labelled ? 'normal flow' : 'scored flow'}</li>${labelled && html`<li><svg class="chart" viewBox="0 0 20 16" aria-hidden="true"><path class="dot-novel" d="M6,4l8,8M14,4l-8,8"/></svg>novel flow</li>`}<li><svg class="chart" viewBox="0 0 20 16" aria-hidden="true"><ellipse class="ellipse-1" cx="10" cy="8" rx="9" ry="6"/></svg>component, 1σ</li><li><svg class="chart" viewBox="0 0 20 16" aria-hidden="true"><ellipse class="ellipse-2" cx="10" cy="8" rx="9" ry="6"/></svg>2σ</li></ul>`
  const body =
    drawing === null
      ? html`<p class="empty">There is nothing to draw in the embedding.</p>`
      : html`<figure><div>${key}${chartSvg(embeddingFrame(embedding, drawing, 'embedding'), embeddingPlot(drawing))}</div><figcaption>
<p>Each flow is placed by the kernel embedding; this is dimensions 1 and 2 of ${formatCount(embedding.dimensions)}. ${mixtureText(embedding.ellipses.length)}</p><p>${embeddingCaption(drawing)}</p></figcaption></figure>`
  return { id: 'h-embedding', heading: 'Embedding and mixture', body }
}
