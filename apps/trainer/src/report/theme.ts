/**
 * The look: one column, a calm type scale, two hues. Every colour is a variable with a light and a dark value,
 * both at WCAG AA contrast (4.5 : 1) as text on the page and on a panel. Charts take the same variables, and
 * their text, drawn in a 400 unit wide box, grows as the box shrinks, so that it stays readable on a phone.
 */

const light = `
  --paper: #fbfaf7; --panel: #ffffff; --ink: #1d2126; --soft: #565d66; --line: #dcd9d2; --faint: #ebe8e1;
  --normal: #1b6a8a; --novel: #b03a14; --mark: #1d2126;`

const dark = `
  --paper: #14171a; --panel: #1b1f24; --ink: #e8e6e1; --soft: #a9afb7; --line: #383e46; --faint: #292e35;
  --normal: #74bcdc; --novel: #f59a74; --mark: #e8e6e1;`

/** Rules for what is inside a chart; shared by the page and the standalone file. */
const chartRules = `
.chart { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; color: var(--ink); fill: currentColor; text-anchor: middle; }
.chart text { fill: var(--soft); stroke: none; }
.chart .axis-name text, .chart text.axis-name { fill: var(--ink); }
.chart .grid { stroke: var(--faint); stroke-opacity: 1; }
.chart .frame { stroke: var(--line); }
.chart .roc-area { fill: var(--novel); fill-opacity: .1; }
.chart .roc-line { stroke: var(--novel); stroke-width: 2.25; }
.chart .chance { stroke: var(--soft); stroke-dasharray: 4 4; }
.chart .roc-fixed { fill: var(--panel); stroke: var(--novel); stroke-width: 1.75; }
.chart .roc-own { fill: var(--mark); stroke: var(--panel); stroke-width: 1.5; }
.chart .bar-normal { fill: var(--normal); }
.chart .bar-novel { fill: var(--novel); }
.chart .base { stroke: var(--line); }
.chart .threshold { stroke: var(--mark); stroke-width: 1.5; stroke-dasharray: 5 3; }
.chart .threshold-name text { fill: var(--ink); font-weight: 600; }
.chart .name-normal text { fill: var(--normal); font-weight: 600; }
.chart .name-novel text { fill: var(--novel); font-weight: 600; }
.chart .name-normal text, .chart .name-novel text, .chart .threshold-name text { paint-order: stroke; stroke: var(--panel); stroke-width: 3px; stroke-linejoin: round; }
.chart .dot-normal { fill: var(--normal); fill-opacity: .45; stroke: none; }
.chart .dot-normal.outside { fill: none; stroke: var(--normal); stroke-opacity: .7; }
.chart .dot-novel { stroke: var(--novel); stroke-width: 1.5; fill: none; }
.chart .dot-novel.outside { stroke-opacity: .75; }
.chart .ellipse-1 { stroke: var(--mark); stroke-width: 1.75; fill: none; }
.chart .ellipse-2 { stroke: var(--mark); stroke-width: 1.25; stroke-dasharray: 4 3; fill: none; }
.chart .ellipse-mean { fill: var(--mark); stroke: var(--panel); }`

export const pageStyle = `
:root { color-scheme: light dark; ${light} }
@media (prefers-color-scheme: dark) { :root { ${dark} } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0; overflow-wrap: anywhere; background: var(--paper); color: var(--ink); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main, header, footer { max-width: 72rem; margin: 0 auto; padding: 0 1rem; }
header { padding-top: 2rem; }
h1 { font-size: 1rem; font-weight: 600; margin: 0; color: var(--soft); }
.subtitle { margin: 0; color: var(--soft); font-size: .9375rem; }
.verdict { font-size: clamp(1.5rem, 1.1rem + 2.2vw, 2.5rem); line-height: 1.2; font-weight: 650; letter-spacing: -.01em; margin: .75rem 0 1.25rem; max-width: 26em; text-wrap: balance; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 0 0 .5rem; }
section { margin: 2.5rem 0; }
p { margin: 0 0 .75rem; max-width: 68ch; }
a { color: inherit; text-underline-offset: .2em; }
a:focus-visible { outline: 2px solid var(--normal); outline-offset: 3px; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: 0; margin: 0; border-top: 1px solid var(--line); border-bottom: 1px solid var(--line); }
.figures div { display: grid; grid-row: span 3; grid-template-rows: subgrid; padding: .75rem 1rem .75rem 0; }
.figures dt { color: var(--soft); font-size: .875rem; line-height: 1.35; align-self: end; }
.figures dd { margin: 0; font-size: 1.625rem; font-weight: 600; line-height: 1.25; font-variant-numeric: tabular-nums; }
.figures dd.detail { font-size: .8125rem; font-weight: 400; color: var(--soft); }
.charts { display: grid; gap: 1.5rem; grid-template-columns: minmax(0, 1fr); }
.charts section { margin: 0; display: grid; grid-template-rows: auto 1fr; grid-template-columns: minmax(0, 1fr); }
figure { margin: 0; background: var(--panel); border: 1px solid var(--line); border-radius: .5rem; padding: .75rem; }
figcaption { color: var(--soft); font-size: .9375rem; line-height: 1.5; margin-top: .5rem; }
figcaption p:last-child { margin: 0; }
.chart { display: block; width: 100%; height: auto; overflow: visible; }
.chart text { font-size: 14px; }
.key { list-style: none; display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: 0 0 .5rem; padding: 0; color: var(--ink); font-size: .9375rem; }
.key .chart { display: inline-block; width: 1.25rem; height: 1rem; vertical-align: -.15em; margin-right: .4rem; overflow: visible; }
.cut, .empty { color: var(--soft); }
dl.facts { display: grid; grid-template-columns: minmax(0, 1fr); margin: 0; }
dl.facts div { padding: .5rem 0; border-bottom: 1px solid var(--faint); display: grid; grid-template-columns: 7rem minmax(0, 1fr); gap: 1rem; }
dl.facts dt { color: var(--soft); }
dl.facts dd { margin: 0; }
table { border-collapse: collapse; table-layout: fixed; width: 100%; font-size: .875rem; line-height: 1.4; font-variant-numeric: tabular-nums; }
th { text-align: left; overflow-wrap: normal; font-weight: 600; color: var(--soft); border-bottom: 1px solid var(--line); vertical-align: bottom; }
th, td { padding: .45rem .75rem .45rem 0; }
tr.told td { border-bottom: 0; padding-bottom: 0; }
td { border-bottom: 1px solid var(--faint); vertical-align: top; }
.n { text-align: right; }
td { }
.w-address { width: 15%; }
.w-time { width: 11%; }
.w-number { width: 8.25%; }
.w-rate { width: 12%; }
.w-word { width: 7%; }
.tag { display: inline-block; white-space: nowrap; font-weight: 600; }
.tag.novel { color: var(--novel); }
.tag.normal { color: var(--normal); }
.notes { padding-left: 1.2rem; max-width: 68ch; margin: 0; }
.notes li { margin-bottom: .5rem; }
footer { color: var(--soft); font-size: .875rem; padding-bottom: 3rem; }
@media screen and (max-width: 59.99rem) {
  table, tbody { display: block; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tr { display: grid; grid-auto-flow: row dense; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: .25rem 1rem; background: var(--panel); border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .75rem; margin-bottom: .5rem; }
  td { display: flex; flex-wrap: wrap; gap: 0 .4rem; width: auto; border: 0; padding: 0; text-align: left; }
  td:has(> span:empty) { display: none; }
  tr.told { border-bottom: 0; border-radius: .5rem .5rem 0 0; margin-bottom: 0; }
  tr.why { border-top: 0; border-radius: 0 0 .5rem .5rem; padding-top: 0; }
  td::before { content: attr(data-label); color: var(--soft); }
  .w-address, .w-name, .w-time { grid-column: 1 / -1; width: auto; }
  .w-number, .w-rate, .w-word { width: auto; }
}
@media (min-width: 48rem) {
  main, header, footer { padding-left: 2rem; padding-right: 2rem; }
  .charts { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .charts .wide { grid-column: 1 / -1; }
  .charts .wide figure { display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); gap: 1.5rem; align-items: center; }
  dl.facts div { grid-template-columns: 13rem minmax(0, 1fr); }
  figure { padding: 1rem; }
  .chart text { font-size: 12px; }
  .wide .chart text { font-size: 9.5px; }
}
@media print {
  :root { ${light} --paper: #fff; }
  body { font-size: 10pt; }
  section, figure, tr { break-inside: avoid; }
  section:has(table) { break-inside: auto; }
  thead { display: table-header-group; }
}
${chartRules}
`

/** For an SVG file that stands alone. */
export const standaloneStyle = `
:root { color-scheme: light dark; ${light} }
@media (prefers-color-scheme: dark) { :root { ${dark} } }
.paper { fill: var(--panel); }
.chart text { font-size: 11px; }${chartRules}
`
