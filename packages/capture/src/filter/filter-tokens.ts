/**
 * Words of a filter expression, each with the column at which it begins.
 *
 * Blanks part words; parentheses and `!` stand alone; `&&` and `||` are `and` and `or`. The length is
 * bounded, so that whatever is made from the text is.
 */
import { ArgumentError } from '@oddflow/core'

export const MAXIMUM_FILTER_LENGTH = 16_384

export interface FilterToken {
  /** Empty at the end of the text. */
  readonly text: string
  /** From 1. */
  readonly column: number
}

const PATTERN = /\s*(&&|\|\||[()!]|[^\s()!&|]+|[&|])/y

export function readFilterTokens(text: string): FilterToken[] {
  if (text.length > MAXIMUM_FILTER_LENGTH) {
    throw new ArgumentError(
      `filter: expected at most ${MAXIMUM_FILTER_LENGTH} characters, found ${text.length}`,
      'filter',
    )
  }
  const tokens: FilterToken[] = []
  PATTERN.lastIndex = 0
  for (let match = PATTERN.exec(text); match !== null; match = PATTERN.exec(text)) {
    const word = match[1]!
    const spelled = word === '&&' ? 'and' : word === '||' ? 'or' : word === '!' ? 'not' : word
    tokens.push({ text: spelled, column: match.index + match[0].length - word.length + 1 })
  }
  tokens.push({ text: '', column: text.length + 1 })
  return tokens
}

/** @param example a filter that is right */
export function filterError(token: FilterToken, expected: string, example: string): ArgumentError {
  const found = token.text === '' ? 'the end' : JSON.stringify(token.text.slice(0, 60))
  return new ArgumentError(
    `filter, column ${token.column}: expected ${expected}, found ${found}; for example "${example}"`,
    'filter',
  )
}
