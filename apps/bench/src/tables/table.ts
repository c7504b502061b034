/**
 * A table as data, before it is Markdown, LaTeX or CSV: rows × data sets, in each cell what others published
 * and what was measured.
 *
 * A measured figure agrees with a published one when they differ by no more than the cell allows; which rule that
 * is stands with the table. A cell without a measured figure says what is missing and is never filled.
 */
import { createHash } from 'node:crypto'
import { encodeTrial, type Spread, type Trial } from '@oddflow/evaluation'

export interface Published {
  readonly mean: number
  readonly sd: number
}

export interface Cell {
  readonly published: Published | null
  readonly measured: Spread | null
  /** Why nothing was measured; null where something was. */
  readonly missing: string | null
  /** measured ÷ published. */
  readonly ratio: number | null
  /** How far apart the two may be; null without both, where one has no standard deviation, or too wide a one. */
  readonly allowed: number | null
  readonly agrees: boolean | null
}

export interface TableRow {
  readonly label: string
  /** Decimals that measured figures are shown with, and published ones: as they were printed. */
  readonly decimals: number
  readonly publishedDecimals: number
  /** One for each column of the table. */
  readonly cells: readonly Cell[]
}

export interface Table {
  /** Of letters, digits and hyphens; unique. */
  readonly id: string
  readonly caption: string
  /** What the published figure is called: the paper's, the reference's; null where there is none to compare with. */
  readonly source: string | null
  readonly columns: readonly string[]
  readonly rows: readonly TableRow[]
  /** How agreement is judged, and what else a reader must know. */
  readonly notes: readonly string[]
  readonly trials: number
  /** SHA-256 over the lines of the trials behind the table, sorted; null without any. */
  readonly trialsSha256: string | null
}

export function compare(
  published: Published | null,
  measured: Spread | null,
  missing: string,
  allow: (published: Published, measured: Spread) => number | null,
): Cell {
  if (measured === null) return { published, measured, missing, ratio: null, allowed: null, agrees: null }
  if (published === null) {
    return { published, measured, missing: null, ratio: null, allowed: null, agrees: null }
  }
  const allowed = allow(published, measured)
  return {
    published,
    measured,
    missing: null,
    ratio: finite(measured.mean / published.mean),
    allowed,
    agrees: allowed === null ? null : Math.abs(measured.mean - published.mean) <= allowed,
  }
}

const finite = (value: number): number | null => (Number.isFinite(value) ? value : null)

/** Of a collection of trials, in whatever order and however often each stands in it. */
export function hashTrials(trials: readonly Trial[]): { trials: number; trialsSha256: string | null } {
  const lines = [...new Set(trials.map(encodeTrial))].sort()
  if (lines.length === 0) return { trials: 0, trialsSha256: null }
  const trialsSha256 = createHash('sha256')
    .update(`${lines.join('\n')}\n`)
    .digest('hex')
  return { trials: lines.length, trialsSha256 }
}
