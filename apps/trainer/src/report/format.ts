/**
 * Text into markup, safely: `html` shows hidden and reordering characters of interpolated strings (⟨U+202E⟩) and
 * escapes the five characters of HTML and XML. Safe in text and quoted attributes, not inside <style> or <script>.
 */

const brand: unique symbol = Symbol('markup')

/** Markup that was made by `html` or `trusted`; a string is never one. */
export interface Markup {
  readonly [brand]: true
  readonly text: string
}

/** What a template may hold; null, undefined and false give nothing. */
type Fragment = Markup | string | number | null | undefined | false | readonly Fragment[]

/** Takes markup of the program's own making as it is. Never give it anything that comes from data. */
export function trusted(text: string): Markup {
  return { [brand]: true, text }
}

/** The tagged template: literal parts stay, interpolated strings are escaped. */
export function html(parts: TemplateStringsArray, ...values: readonly Fragment[]): Markup {
  let text = parts[0]!
  for (let i = 0; i < values.length; i++) text += fragmentText(values[i]) + parts[i + 1]!
  return trusted(text)
}

function fragmentText(value: Fragment): string {
  if (value === null || value === undefined || value === false) return ''
  if (typeof value === 'string') return escapeText(value)
  if (typeof value === 'number') return escapeText(String(value))
  if (isList(value)) return value.map(fragmentText).join('')
  if (value[brand] !== true) throw new TypeError('html: an interpolated value is neither text nor markup')
  return value.text
}

function isList(value: Markup | readonly Fragment[]): value is readonly Fragment[] {
  return Array.isArray(value)
}

const references: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Makes hidden characters visible and escapes markup: safe in text and in quoted attributes. */
export function escapeText(text: string): string {
  return visibleText(text).replace(/[&<>"']/g, (c) => references[c]!)
}

// C0 and DEL; C1; soft hyphen; Arabic letter mark; Mongolian vowel separator; zero-width characters and marks;
// line and paragraph separators; embeddings and overrides; invisible operators and isolates; Hangul fillers;
// byte-order mark; interlinear annotation; noncharacters at the end of the plane; tag characters; lone
// surrogates (the u flag makes a surrogate escape match only unpaired ones).
const hidden =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff]|[\u{e0000}-\u{e007f}]/gu

/** Replaces characters that are not seen, or that reorder their neighbours, by a visible sign. */
export function visibleText(text: string): string {
  return text.replace(hidden, (c) => `⟨U+${c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}⟩`)
}

/** Names are cut to this many code points; longer ones say how much was left out. */
export const NAME_LIMIT = 120

/** A name from traffic or from a file system, isolated so that right-to-left letters keep to themselves. */
export function name(text: string, limit = NAME_LIMIT): Markup {
  const shown = cutText(text, limit)
  const rest = text.length - shown.length
  return html`<bdi>${shown}</bdi>${rest > 0 && html` <span class="cut">(+${rest} more characters)</span>`}`
}

/** The first `limit` code points. */
export function cutText(text: string, limit: number): string {
  // A first cut by UTF-16 units keeps the cost of a text of megabytes small.
  const points = Array.from(text.slice(0, 2 * limit + 2))
  return points.length <= limit ? text : points.slice(0, limit).join('')
}

/**
 * Every colour is a variable with a light and a dark value, both at WCAG AA contrast (4.5 : 1). The text of charts grows
 * as their box shrinks, so that it stays readable on a phone.
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

/** Numbers as people read them. The machine's locale is not used, so a page is the same everywhere. */

const absent = 'n/a'

/** 12345 → "12,345". */
export function formatCount(count: number): string {
  if (!Number.isFinite(count)) return absent
  const digits = String(Math.round(Math.abs(count)))
  // Beyond 1e21 JavaScript itself writes an exponent: nothing to group there.
  const grouped = /^\d+$/.test(digits) ? digits.replace(/\B(?=(\d{3})+$)/g, ',') : digits
  return count < 0 ? `−${grouped}` : grouped
}

/** "1 flow", "2 flows". */
export function formatQuantity(count: number, singular: string, plural = `${singular}s`): string {
  return `${formatCount(count)} ${count === 1 ? singular : plural}`
}

/** 0.0123 → "1.2 %"; small rates keep a second digit so that 0.01 % is not shown as nothing. */
export function formatPercent(rate: number): string {
  if (!Number.isFinite(rate)) return absent
  const percent = rate * 100
  if (percent !== 0 && Math.abs(percent) < 0.01) return '<\u00a00.01\u00a0%'
  if (rate !== 1 && percent > 99.9) return '>\u00a099.9\u00a0%'
  return `${trimZeros(percent.toFixed(Math.abs(percent) < 1 ? 2 : 1))}\u00a0%`
}

/** A score or another plain number: four significant digits, a true minus sign. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return absent
  const size = Math.abs(value)
  const text =
    size !== 0 && (size >= 1e7 || size < 1e-4)
      ? value.toExponential(2)
      : size >= 1000
        ? formatCount(value)
        : trimZeros(value.toPrecision(4))
  return text.replace('-', '−')
}

/** AUC and the like: three decimals, so that columns line up, but only 1 itself is 1.000. */
export function formatRatio(value: number): string {
  return Number.isFinite(value) ? formatBelowOne(value, 3) : absent
}

/** So many decimals, and as many more as a value below 1 needs not to be rounded up to it. */
export function formatBelowOne(value: number, decimals: number): string {
  for (let more = decimals; more < 20 && value < 1; more++) {
    const text = value.toFixed(more)
    if (Number(text) < 1) return text
  }
  return value.toFixed(decimals)
}

/** Microseconds → "350 µs", "12.5 ms", "3.2 s", "4 min 10 s", "2 h 5 min". */
export function formatDuration(micros: number): string {
  if (!Number.isFinite(micros)) return absent
  const size = Math.abs(micros)
  if (size < 1e3) return `${trimZeros(micros.toFixed(1))}\u00a0µs`
  if (size < 1e6) return `${trimZeros((micros / 1e3).toFixed(1))}\u00a0ms`
  if (size < 60e6) return `${trimZeros((micros / 1e6).toFixed(2))}\u00a0s`
  const seconds = Math.round(micros / 1e6)
  if (size < 3600e6) return `${Math.trunc(seconds / 60)}\u00a0min ${Math.abs(seconds % 60)}\u00a0s`
  const minutes = Math.round(seconds / 60)
  return `${formatCount(Math.trunc(minutes / 60))}\u00a0h ${Math.abs(minutes % 60)}\u00a0min`
}

/** Bytes → "640 B", "12.3 kB", "4.5 MB": decimal units, as networks count. */
export function formatBytes(bytes: number): string {
  if (!Number.isFinite(bytes)) return absent
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']
  let value = bytes
  let unit = 0
  while (Math.abs(value) >= 999.95 && unit < units.length - 1) {
    value /= 1000
    unit++
  }
  return `${trimZeros(value.toFixed(1))}\u00a0${units[unit]!}`
}

/** Microseconds since 1970 → "2026-11-27 23:38:09.123", in UTC; null where a capture has no time. */
export function formatTime(micros: number | null): string {
  if (micros === null) return 'no time'
  const date = new Date(Math.floor(micros / 1000))
  if (Number.isNaN(date.getTime())) return absent
  return date.toISOString().replace('T', ' ').replace('Z', '')
}

function trimZeros(decimal: string): string {
  return decimal.includes('.') && !decimal.includes('e') ? decimal.replace(/\.?0+$/, '') : decimal
}
