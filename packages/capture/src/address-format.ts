/**
 * Addresses as text: IPv4 in dotted decimals, IPv6 as RFC 5952 wants it (lower case, no leading zeros, the
 * longest run of two or more zero groups shortened, the first of equals; ::ffff:0:0/96 with a dotted tail),
 * MAC addresses as six pairs with colons.
 */

/** @param words four 32-bit words an address. @param at index of the first of them */
export function formatAddress(words: ArrayLike<number>, at: number, ipVersion: number): string {
  if (ipVersion !== 6) return dotted(words[at + 3]!)
  const groups: number[] = []
  for (let k = 0; k < 4; k++) groups.push(words[at + k]! >>> 16, words[at + k]! & 0xffff)
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) {
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
  const text = (from: number, to: number): string =>
    groups
      .slice(from, to)
      .map((group) => group.toString(16))
      .join(':')
  return best < 0 ? text(0, 8) : `${text(0, best)}::${text(best + bestLength, 8)}`
}

function dotted(word: number): string {
  return `${word >>> 24}.${(word >>> 16) & 255}.${(word >>> 8) & 255}.${word & 255}`
}

/** @param at index of the first of six bytes */
export function formatMac(bytes: ArrayLike<number>, at: number): string {
  const pairs: string[] = []
  for (let k = 0; k < 6; k++) pairs.push(bytes[at + k]!.toString(16).padStart(2, '0'))
  return pairs.join(':')
}
