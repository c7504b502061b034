/**
 * Addresses as text: IPv4 in dotted decimals, IPv6 as RFC 5952 wants it (lower case, no leading zeros, the
 * longest run of two or more zero groups shortened, the first of equals; ::ffff:0:0/96 with a dotted tail),
 * MAC addresses as six pairs with colons.
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
