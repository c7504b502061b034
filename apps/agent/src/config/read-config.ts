/**
 * A configuration file: YAML 1.2, with every error at its line and column.
 *
 * It may be hostile: its length, depth and aliases are limited before it is parsed (yaml limits the unfolding of aliases), and nothing in
 * it is executed.
 */
import { isUtf8 } from 'node:buffer'
import { inFile, readFileBounded } from '@oddflow/program'
import { safeParse } from 'valibot'
import {
  CST,
  type Document,
  isCollection,
  isMap,
  isPair,
  isScalar,
  Lexer,
  LineCounter,
  parseDocument,
  visit,
} from 'yaml'
import { type Config, ConfigSchema, pathText } from './settings.js'

/** Limits that are checked on the tokens of a YAML text, before the parser recurses. */
export const MAXIMUM_DEPTH = 16
export const MAXIMUM_ALIASES = 100

/**
 * The first place beyond the limits, or null. A level is an open bracket, or a block that is indented more than the one before; the
 * hyphen of a list is a level.
 */
export function findExcess(text: string): { offset: number; message: string } | null {
  const columns: number[] = []
  let offset = 0
  let lineStart = 0
  let brackets = 0
  let aliases = 0
  /** Only hyphens, question marks and colons stand before on this line. */
  let isAtStart = true
  let isScalar = false
  for (const token of new Lexer().lex(text)) {
    // the token behind a scalar's mark is its text
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
          message: `is nested deeper than ${MAXIMUM_DEPTH} levels, the maximum`,
        }
      }
      if (aliases > MAXIMUM_ALIASES) {
        return { offset: begin, message: `more than ${MAXIMUM_ALIASES} aliases, the maximum` }
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

/** Line and column count from 1. */
export interface ConfigError {
  readonly line: number
  readonly column: number
  readonly message: string
}

export interface ReadConfig {
  /** null if there are errors. */
  readonly config: Config | null
  readonly errors: readonly ConfigError[]
  /** The place of a key, such as ['suppress', 0, 'device'], for later errors. */
  placeOf(path: readonly (string | number)[]): { line: number; column: number }
}

const MAXIMUM_BYTES = 1_048_576
const REPEATED = 'duplicate key'
const SECOND_DOCUMENT = 'expected one document, found "---"; remove one of the two documents'
const NUL = 'expected a text without NUL characters'

/** Throws FileError when the file cannot be read. */
export function readConfig(file: string): ReadConfig {
  const bytes = readFileBounded(file, { maximumBytes: MAXIMUM_BYTES, onlyRegular: true })
  try {
    const text = new TextDecoder().decode(bytes)
    if (isUtf8(bytes)) return parseConfig(text)
    // an accent in another encoding would change the name of a file
    const place = placeIn(text, text.indexOf('\ufffd'))
    const message = 'expected UTF-8, found another encoding; save the file as UTF-8'
    return { config: null, errors: [{ ...place, message }], placeOf: () => place }
  } catch (error) {
    throw inFile(file, error)
  }
}

export function parseConfig(given: string): ReadConfig {
  // a bare hyphen begins a list in YAML, but here it means standard input
  const text = given.replace(/^(read:[ \t]+)-(?=[ \t]*(#.*)?\r?$)/m, "$1'-'")
  const excess = findExcess(text)
  if (excess !== null) {
    const place = placeIn(text, excess.offset)
    return { config: null, errors: [{ ...place, message: excess.message }], placeOf: () => place }
  }
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: false })
  const at = (offset: number): { line: number; column: number } => {
    const { line, col } = lines.linePos(offset)
    return { line: Math.max(1, line), column: Math.max(1, col) }
  }
  const placeOf = (path: readonly (string | number)[]) => at(offsetOf(document, path))
  const refused = (errors: ConfigError[]): ReadConfig => ({ config: null, errors, placeOf })
  // a warning is an unknown tag or a doubtful key
  const faults = [...document.errors, ...document.warnings]
  if (faults.length > 0) {
    return refused(
      faults.map(({ pos, code, message }) => ({
        ...at(pos[0]),
        message: code === 'MULTIPLE_DOCS' ? SECOND_DOCUMENT : firstLine(message),
      })),
    )
  }
  for (const [offsets, message] of [
    [repeatedKeys(document), REPEATED],
    [withNul(document), NUL],
  ] as const)
    if (offsets.length > 0) return refused(offsets.map((offset) => ({ ...at(offset), message })))
  if (document.contents !== null && !isMap(document.contents)) {
    return refused([{ ...placeOf([]), message: 'expected keys with values, such as "interface: eth0"' }])
  }
  let value: unknown
  try {
    value = document.toJS({ maxAliasCount: MAXIMUM_ALIASES })
  } catch (error) {
    return refused([{ line: 1, column: 1, message: firstLine(error instanceof Error ? error.message : '') }])
  }
  const parsed = safeParse(ConfigSchema, value ?? {})
  if (parsed.success) return { config: parsed.output, errors: [], placeOf }
  return refused(
    parsed.issues.map((issue) => {
      const path = (issue.path ?? []).map(({ key }) => key as string | number)
      return { ...placeOf(path), message: messageOf(issue, path) }
    }),
  )
}

interface Issue {
  readonly kind: string
  readonly type: string
  readonly expected: string | null
  readonly received: string
  readonly message: string
}

function messageOf({ type, expected, received, message }: Issue, path: readonly (string | number)[]): string {
  const name = pathText(path)
  const found = received.length > 60 ? `${received.slice(0, 60)}…` : received
  if (type === 'strict_object' && expected === 'never') return `${name}: no such key`
  const what = type === 'regex' ? message : (expected ?? 'another value')
  return `${name === '' ? '' : `${name}: `}expected ${what}, found ${found}`
}

/** Offsets of repeated keys. The parser's own search takes quadratic time. */
function repeatedKeys(document: Document): number[] {
  const offsets: number[] = []
  visit(document, {
    Map(_, { items }) {
      const seen = new Set<unknown>()
      for (const { key } of items) {
        if (!isScalar(key)) continue
        if (seen.has(key.value)) offsets.push(rangeOf(key))
        seen.add(key.value)
      }
    },
  })
  return offsets
}

/** Offsets of keys and values with a NUL, at which the system would cut a path. */
function withNul(document: Document): number[] {
  const offsets: number[] = []
  visit(document, {
    Scalar(_, node) {
      if (typeof node.value === 'string' && node.value.includes('\0')) offsets.push(rangeOf(node))
    },
  })
  return offsets
}

/** Offset of the key or the item at a path, or of the nearest one above it. */
function offsetOf(document: Document, path: readonly (string | number)[]): number {
  let node: unknown = document.contents
  let offset = rangeOf(node)
  for (const key of path) {
    if (isMap(node)) {
      const pair = node.items.find((item) => isPair(item) && isScalar(item.key) && item.key.value === key)
      if (pair === undefined) break
      offset = rangeOf(pair.key)
      node = pair.value
    } else if (isCollection(node) && typeof key === 'number') {
      node = node.items[key]
      offset = rangeOf(node)
    } else break
  }
  return offset
}

function rangeOf(node: unknown): number {
  return (node as { range?: readonly number[] | null } | null)?.range?.[0] ?? 0
}

/** Line and column of an offset, from 1. */
function placeIn(text: string, offset: number): { line: number; column: number } {
  const before = text.slice(0, offset).split('\n')
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 }
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0]
}
