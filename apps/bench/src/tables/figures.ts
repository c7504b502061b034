/** Figures as text: fixed decimals, a true minus sign, ± only where there is a spread. */
import type { Cell, Published, Table } from './table.js'

export function formatSpread(
  figure: { readonly mean: number; readonly sd: number | null } | Published,
  decimals: number,
): string {
  const sd = figure.sd === null ? '' : ` ± ${fixed(figure.sd, decimals)}`
  return `${fixed(figure.mean, decimals)}${sd}`
}

export function formatMeasured({ measured, missing }: Cell, decimals: number): string {
  return measured === null ? (missing ?? '') : formatSpread(measured, decimals)
}

export function formatRatio(cell: Cell): string {
  const { ratio, agrees } = cell
  if (ratio === null) return ''
  return `${fixed(ratio, 2)}${isSpreadTooWide(cell) ? ' ~' : agrees === null ? '' : agrees ? ' ✓' : ' ✗'}`
}

export function fixed(value: number, decimals: number): string {
  const text = value.toFixed(decimals)
  return (Number(text) === 0 ? text.replace('-', '') : text).replace('-', '−')
}

/** Both figures have a standard deviation, and the rule of the table would not judge by it. */
export function isSpreadTooWide({ published, measured, allowed }: Cell): boolean {
  return published !== null && measured !== null && measured.sd !== null && allowed === null
}

export interface Disagreement {
  readonly row: string
  readonly column: string
  readonly text: string
}

/** Every cell whose figures do not agree. */
export function disagreements({ rows, columns }: Table): Disagreement[] {
  return rows.flatMap(({ label, cells, decimals }) =>
    cells.flatMap(({ published, measured, allowed, agrees }, i): Disagreement[] => {
      if (agrees !== false || published === null || measured === null || allowed === null) return []
      const difference = fixed(measured.mean - published.mean, decimals)
      return [
        {
          row: label,
          column: columns[i] ?? '',
          text: `${label}, ${columns[i]}: ${difference} (allowed ${fixed(allowed, decimals)})`,
        },
      ]
    }),
  )
}

/** "12 of 15 cells agree", or that there is nothing to compare. */
export function tally({ rows, source }: Table): string | null {
  if (source === null) return null
  const cells = rows.flatMap((row) => row.cells)
  const judged = cells.filter(({ agrees }) => agrees !== null)
  const agree = judged.filter(({ agrees }) => agrees === true).length
  const empty = cells.filter(({ measured }) => measured === null).length
  const first = judged.length === 0 ? 'No cell to compare' : `${agree} of ${judged.length} cells agree`
  const wide = cells.filter(isSpreadTooWide).length
  const unjudged = wide === 0 ? '' : `; ${wide} spread too far to be judged`
  return `${first}${unjudged}; ${empty} of ${cells.length} cells have no measured figure.`
}

export function provenance({ trials, trialsSha256 }: Table): string {
  return trialsSha256 === null
    ? 'No trials.'
    : `${trials} ${trials === 1 ? 'trial' : 'trials'}, SHA-256 ${trialsSha256}.`
}
