/** A table on standard output: columns as wide as their widest cell, whatever is in a cell made printable. */
import { printable } from '@oddflow/program'

export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const table = [head, ...rows.map((row) => row.map(printable))]
  const widths = head.map((_, column) => Math.max(...table.map((row) => row[column].length)))
  for (const row of table) {
    process.stdout.write(
      `${row
        .map((cell, column) => cell.padEnd(widths[column]))
        .join('  ')
        .trimEnd()}\n`,
    )
  }
}
