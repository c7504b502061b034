/**
 * How deep a YAML text is nested and how many aliases it has, found from its tokens alone.
 *
 * A parser that builds what it reads goes as deep as the text does, and unfolds what the text refers to. This looks first,
 * needs a list of columns, and ends at the first place that is too much. A level is a bracket that is open, or a
 * block that is indented more than the one before, a list's hyphen being one.
 */
import { CST, Lexer } from 'yaml'

export const MAXIMUM_DEPTH = 16
export const MAXIMUM_ALIASES = 100

export interface Excess {
  readonly offset: number
  readonly message: string
}

/** null where the text keeps within both. */
export function findExcess(text: string): Excess | null {
  const columns: number[] = []
  let offset = 0
  let lineStart = 0
  let brackets = 0
  let aliases = 0
  /** Nothing but hyphens, question marks and colons of their own stand before on this line. */
  let isAtStart = true
  let isScalar = false
  for (const token of new Lexer().lex(text)) {
    // a scalar's text is the token behind its mark, and no token itself
    const type: string | null = isScalar ? 'scalar' : CST.tokenType(token)
    isScalar = type === 'scalar' && token === CST.SCALAR
    if (isScalar || type === 'doc-mode' || type === 'flow-error-end') continue
    const begin = offset
    offset += token.length
    if (type === 'space' || type === 'comment' || type === 'byte-order-mark') continue
    if (type !== 'newline') {
      if (brackets === 0 && isAtStart) {
        const column = begin - lineStart
        while (columns.length > 0 && columns[columns.length - 1] >= column) columns.pop()
        columns.push(column)
      }
      isAtStart &&= type === 'seq-item-ind' || type === 'explicit-key-ind' || type === 'map-value-ind'
      if (type === 'flow-map-start' || type === 'flow-seq-start') brackets++
      if (type === 'flow-map-end' || type === 'flow-seq-end') brackets = Math.max(0, brackets - 1)
      if (type === 'alias') aliases++
      if (columns.length + brackets > MAXIMUM_DEPTH) {
        return {
          offset: begin,
          message: `is nested deeper than ${MAXIMUM_DEPTH} levels, the most that is read`,
        }
      }
      if (aliases > MAXIMUM_ALIASES) {
        return { offset: begin, message: `more than ${MAXIMUM_ALIASES} aliases, the most that is read` }
      }
    }
    const feed = token.lastIndexOf('\n')
    if (feed !== -1) {
      lineStart = begin + feed + 1
      isAtStart = true
    }
  }
  return null
}
