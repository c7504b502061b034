/** Names of machines, as trials, tables, targets and the lines of a bundle's program have them. */
export const SHORT_NAME = /^[a-z0-9][a-z0-9.+-]{0,63}$/
export const EXPECTED_NAME = 'expected a short name of a-z, 0-9, dots, hyphens, plus signs'

/** What is left of a text as such a name; empty when nothing is. */
export function toShortName(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^a-z0-9.+-]/g, '-')
    .replace(/^[^a-z0-9]+/, '')
    .slice(0, 64)
}
