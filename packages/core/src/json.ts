/**
 * JSON.parse without repeated keys, with which two readers could see two different files, and without nesting beyond
 * 32 levels. It also notes where each key of the outermost object is. Positions are UTF-16 indices.
 */

const MAXIMUM_DEPTH = 32

/** A parsed JSON text without duplicate keys, and where its keys stand. */
export interface StrictJson {
  readonly value: unknown
  /** Where the keys of the outermost object stand in the text. */
  readonly keyPositions: ReadonlyMap<string, number>
}

/**
 * Calls `fail`, which must throw, with what is wrong and where; otherwise returns the parsed text. An object of more
 * than `maximumKeys` keys is refused at the first key too many, before anything is built of it.
 */
export function parseStrictJson(
  text: string,
  fail: (message: string, position: number) => never,
  maximumKeys: number = Number.POSITIVE_INFINITY,
): StrictJson {
  const keyPositions = scanKeys(text, fail, maximumKeys)
  try {
    return { value: JSON.parse(text) as unknown, keyPositions }
  } catch (error) {
    // engines word this differently; V8 and SpiderMonkey say a position or a column where they know one
    const found = /position (\d+)/.exec(String(error))
    return fail('is not JSON', found === null ? 0 : Math.min(Number(found[1]), text.length))
  }
}

/** Walks brackets, strings and commas; text that is not JSON at all is left for JSON.parse to refuse. */
function scanKeys(
  text: string,
  fail: (message: string, position: number) => never,
  maximumKeys: number,
): ReadonlyMap<string, number> {
  const outermost = new Map<string, number>()
  // one entry a level: the keys met so far, or null inside an array
  const levels: (Set<string> | null)[] = []
  let expectsKey = false
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (c === 0x7b || c === 0x5b) {
      if (levels.length === MAXIMUM_DEPTH) fail(`nests deeper than ${MAXIMUM_DEPTH} levels`, i)
      levels.push(c === 0x7b ? new Set() : null)
      expectsKey = c === 0x7b
    } else if (c === 0x7d || c === 0x5d) {
      levels.pop()
      expectsKey = false
    } else if (c === 0x2c) {
      expectsKey = (levels.at(-1) ?? null) !== null
    } else if (c === 0x22) {
      const start = i
      for (i++; i < text.length && text.charCodeAt(i) !== 0x22; i++) {
        if (text.charCodeAt(i) === 0x5c) i++
      }
      const keys = levels.at(-1)
      if (!expectsKey || !keys) continue
      expectsKey = false
      const key = unescapeString(text.slice(start, i + 1))
      if (key === null) continue
      if (keys.has(key)) fail(`repeats the key ${JSON.stringify(key).slice(0, 60)}`, start)
      if (keys.size >= maximumKeys) fail(`has an object of more than ${maximumKeys} entries`, start)
      keys.add(key)
      if (levels.length === 1) outermost.set(key, start)
    }
  }
  return outermost
}

function unescapeString(quoted: string): string | null {
  if (!quoted.includes('\\')) return quoted.slice(1, -1)
  try {
    return String(JSON.parse(quoted))
  } catch {
    return null
  }
}
