/** Values of options as the command line gives them: each parser takes one or says what was expected. */
import { InvalidArgumentError } from 'commander'
import { EXPECTED_NAME, SHORT_NAME } from '../machines/short-name.js'

/** Each once, in the order in which they first came: what is asked for twice is not done twice. */
export function names(value: string): string[] {
  const found = [...new Set(value.split(',').map((name) => name.trim()))]
  if (found.includes('')) throw new InvalidArgumentError('expected names separated by commas')
  return found
}

export function whole(least: number, most: number): (value: string) => number {
  return (value) => {
    const found = Number(value)
    if (!/^\d+$/.test(value) || found < least || found > most) {
      throw new InvalidArgumentError(`expected a whole number from ${least} to ${most}`)
    }
    return found
  }
}

export function machineName(value: string): string {
  if (!SHORT_NAME.test(value)) throw new InvalidArgumentError(EXPECTED_NAME)
  return value
}
