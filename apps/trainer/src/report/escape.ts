/**
 * Text into markup, safely: one tagged template for the whole report.
 *
 * `html` puts every interpolated string through two steps. First, characters that would change how the text
 * around them is read are made visible as their code point, ⟨U+202E⟩: control characters, bidirectional overrides
 * and isolates, zero-width and line-separator characters, tag characters, lone surrogates. Then the five characters that mean something to HTML, XML and attributes are written as numeric
 * or named references that both languages know. Only what `html` itself made goes in unescaped, so markup can
 * be nested but never smuggled in as a string.
 *
 * The result is good in text, in double- or single-quoted attributes and in SVG text. It is not meant for the
 * inside of <style> or <script>: the report has no script and its style holds no data.
 */

const brand: unique symbol = Symbol('markup')

/** Markup that was made by `html` or `trusted`; a string is never one. */
export interface Markup {
  readonly [brand]: true
  readonly text: string
}

/** What a template may hold; null, undefined and false give nothing. */
export type Fragment = Markup | string | number | null | undefined | false | readonly Fragment[]

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
