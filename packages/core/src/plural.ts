/** A count with its noun, as every message of the packages and programs says it. Regular plurals alone. */

/** "1 row", "2 rows". */
export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
