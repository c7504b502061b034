/**
 * Addresses from text: dotted IPv4, IPv6 as RFC 4291 section 2.2 (with `::` and a dotted tail), MAC with colons or
 * hyphens; null for any other text. No name is looked up.
 */

/** The octets of a dotted number of 1 to 4 parts, as networks are written ("10", "192.168"). */
export function parseOctets(text: string): number[] | null {
  if (!/^\d{1,3}(\.\d{1,3}){0,3}$/.test(text)) return null
  const octets = text.split('.').map(Number)
  return octets.every((octet) => octet <= 255) ? octets : null
}

/** A 32-bit word. */
export function parseIpv4(text: string): number | null {
  const octets = parseOctets(text)
  return octets === null || octets.length !== 4 ? null : wordOf(octets)
}

/** Octets from the most significant on; those left out are 0. */
export function wordOf(octets: readonly number[]): number {
  let word = 0
  for (let k = 0; k < 4; k++) word = (word << 8) | (octets[k] ?? 0)
  return word >>> 0
}

/** Four 32-bit words. */
export function parseIpv6(text: string): Uint32Array | null {
  if (!text.includes(':')) return null
  const halves = text.split('::')
  if (halves.length > 2) return null
  const left = groupsOf(halves[0]!, halves.length === 1)
  const right = halves.length === 2 ? groupsOf(halves[1]!, true) : []
  if (left === null || right === null) return null
  const missing = 8 - left.length - right.length
  if (halves.length === 2 ? missing < 1 : missing !== 0) return null
  const groups = [...left, ...new Array<number>(missing).fill(0), ...right]
  const words = new Uint32Array(4)
  for (let k = 0; k < 8; k++) words[k >> 1] = (words[k >> 1]! << 16) | groups[k]!
  return words
}

function groupsOf(text: string, last: boolean): number[] | null {
  if (text === '') return []
  const groups: number[] = []
  const parts = text.split(':')
  for (const [k, part] of parts.entries()) {
    if (/^[0-9a-fA-F]{1,4}$/.test(part)) {
      groups.push(Number.parseInt(part, 16))
      continue
    }
    const word = last && k === parts.length - 1 ? parseIpv4(part) : null
    if (word === null) return null
    groups.push(word >>> 16, word & 0xffff)
  }
  return groups
}

/** Six bytes. */
export function parseMac(text: string): Uint8Array | null {
  if (!/^[0-9a-fA-F]{1,2}([:-][0-9a-fA-F]{1,2}){5}$/.test(text)) return null
  return Uint8Array.from(text.split(/[:-]/), (pair) => Number.parseInt(pair, 16))
}

/**
 * Addresses as text: IPv4 in dotted decimals, IPv6 by RFC 5952 (lower case, no leading zeros, the first of the longest
 * runs of two or more zero groups shortened; ::ffff:0:0/96 with a dotted tail), MAC as six pairs with colons.
 */

/** Every value of a byte, in decimals and as a pair of hexadecimal digits. */
const DECIMAL = Array.from({ length: 256 }, (_, byte) => String(byte))
const PAIR = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/** The groups of the address at hand; nothing of it lasts between calls. */
const groups = new Uint16Array(8)

/** @param words four 32-bit words an address. @param at index of the first of them */
export function formatAddress(words: ArrayLike<number>, at: number, ipVersion: number): string {
  if (ipVersion !== 6) return dotted(words[at + 3]!)
  for (let k = 0; k < 4; k++) {
    groups[2 * k] = words[at + k]! >>> 16
    groups[2 * k + 1] = words[at + k]! & 0xffff
  }
  if (words[at] === 0 && words[at + 1] === 0 && words[at + 2] === 0xffff) {
    return `::ffff:${dotted(words[at + 3]!)}`
  }
  let best = -1
  let bestLength = 1
  for (let k = 0; k < 8; k++) {
    let length = 0
    while (k + length < 8 && groups[k + length] === 0) length++
    if (length > bestLength) {
      best = k
      bestLength = length
    }
  }
  return best < 0 ? hexadecimal(0, 8) : `${hexadecimal(0, best)}::${hexadecimal(best + bestLength, 8)}`
}

function hexadecimal(from: number, to: number): string {
  let text = ''
  for (let k = from; k < to; k++) text += k === from ? groups[k]!.toString(16) : `:${groups[k]!.toString(16)}`
  return text
}

function dotted(word: number): string {
  return `${DECIMAL[word >>> 24]}.${DECIMAL[(word >>> 16) & 255]}.${DECIMAL[(word >>> 8) & 255]}.${DECIMAL[word & 255]}`
}

/** @param at index of the first of six bytes */
export function formatMac(bytes: ArrayLike<number>, at: number): string {
  let text = PAIR[bytes[at]!]!
  for (let k = 1; k < 6; k++) text += `:${PAIR[bytes[at + k]!]}`
  return text
}
