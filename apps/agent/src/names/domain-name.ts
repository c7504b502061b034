/**
 * Domain names in messages (RFC 1035, sections 3.1 and 4.1.4), from bytes that nobody vouches for.
 *
 * A pointer may only lead to an earlier byte than any that was read through it, so there are no loops; labels together take at
 * most 255 bytes. Labels are given as bytes: what they mean is their reader's business.
 */
export interface DomainName {
  readonly labels: readonly Uint8Array[]
  /** The byte after the name where it stands. */
  readonly end: number
}

const MAXIMUM_NAME_BYTES = 255

/**
 * @param start - where pointers are counted from; −1 where there are none (DHCP).
 * @param end - of the message.
 * @returns null where it is no name, or goes beyond the end.
 */
export function readDomainName(bytes: Uint8Array, at: number, start: number, end: number): DomainName | null {
  const labels: Uint8Array[] = []
  let taken = 0
  let after = -1
  let lowest = at
  for (;;) {
    if (at >= end) return null
    const length = bytes[at]
    if (length === 0) return { labels, end: after < 0 ? at + 1 : after }
    if (length >= 0xc0) {
      if (start < 0 || at + 1 >= end) return null
      if (after < 0) after = at + 2
      at = start + (((length & 0x3f) << 8) | bytes[at + 1])
      if (at >= lowest) return null
      lowest = at
      continue
    }
    taken += length + 1
    if (length > 63 || taken > MAXIMUM_NAME_BYTES || at + 1 + length > end) return null
    labels.push(bytes.subarray(at + 1, at + 1 + length))
    at += 1 + length
  }
}

/** Whether labels end with these, letters of either case. */
export function endsWith(labels: readonly Uint8Array[], suffix: readonly string[]): boolean {
  if (labels.length < suffix.length) return false
  const from = labels.length - suffix.length
  return suffix.every((text, i) => asciiLower(labels[from + i]) === text)
}

export function asciiLower(label: Uint8Array): string {
  return String.fromCharCode(...label).toLowerCase()
}
