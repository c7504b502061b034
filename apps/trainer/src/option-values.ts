/** Texts of a command line as numbers; what they may be, the option's own check says. */
import { InvalidArgumentError } from 'commander'

export function number(text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('expected a number.')
  return value
}

export function whole(text: string): number {
  const value = number(text)
  if (!Number.isSafeInteger(value) || value < 0)
    throw new InvalidArgumentError('expected a whole number of 0 or more.')
  return value
}

/** Values between commas. */
export function list<T>(parse: (text: string) => T): (text: string) => T[] {
  return (text) => {
    try {
      return text.split(',').map((part) => parse(part.trim()))
    } catch (error) {
      if (!(error instanceof InvalidArgumentError)) throw error
      throw new InvalidArgumentError(`${error.message.replace(/\.$/, '')} between commas.`)
    }
  }
}
