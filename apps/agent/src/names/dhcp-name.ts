/**
 * The name that a DHCP client gives itself: host name (RFC 2132, option 12), else the first label of its fully
 * qualified name (RFC 4702, option 81), in messages to a server (op BOOTREQUEST) over Ethernet.
 *
 *     op 1, htype 1, hlen 1, …, chaddr at 28, 0x63825363 at 236, options from 240: code 1, length 1, value
 *
 * Options that overflow into the fields `file` and `sname` (option 52) are not looked for.
 */
import { cleanName } from './clean-name.js'
import { readDomainName } from './domain-name.js'

const CHADDR = 28
const COOKIE = 236
const OPTIONS = 240
const HOST_NAME = 12
const CLIENT_FQDN = 81

/** null where the message has no name, or is none. `mac` is the client's, as it says. */
export function readDhcpName(
  bytes: Uint8Array,
  start: number,
  end: number,
): { readonly mac: Uint8Array; readonly name: string } | null {
  if (end - start < OPTIONS) return null
  const isRequest = bytes[start] === 1 && bytes[start + 1] === 1 && bytes[start + 2] === 6
  const cookie = [0x63, 0x82, 0x53, 0x63].every((byte, i) => bytes[start + COOKIE + i] === byte)
  if (!isRequest || !cookie) return null
  let host: string | null = null
  let qualified: string | null = null
  for (let at = start + OPTIONS; at < end && bytes[at] !== 255; ) {
    if (bytes[at] === 0) {
      at++
      continue
    }
    const value = at + 2
    const after = value + bytes[at + 1]
    if (value > end || after > end) break
    if (bytes[at] === HOST_NAME) host ??= cleanName(bytes.subarray(value, after))
    if (bytes[at] === CLIENT_FQDN) qualified ??= qualifiedName(bytes, value, after)
    at = after
  }
  const name = host ?? qualified
  return name === null ? null : { mac: bytes.subarray(start + CHADDR, start + CHADDR + 6), name }
}

/** Flags, two bytes of no use, and the name: labels where flag E is set, else text. */
function qualifiedName(bytes: Uint8Array, at: number, end: number): string | null {
  if (end - at < 4) return null
  if ((bytes[at] & 4) !== 0) return firstLabel(bytes, at + 3, end)
  const dot = bytes.subarray(at + 3, end).indexOf(0x2e)
  return cleanName(bytes.subarray(at + 3, dot < 0 ? end : at + 3 + dot))
}

/** Of a name that may be cut off before its last zero byte, as both RFCs allow. */
export function firstLabel(bytes: Uint8Array, at: number, end: number): string | null {
  const whole = readDomainName(bytes, at, -1, end)
  const label = whole === null ? partialLabel(bytes, at, end) : whole.labels[0]
  return label === undefined ? null : cleanName(label)
}

function partialLabel(bytes: Uint8Array, at: number, end: number): Uint8Array | undefined {
  const length = bytes[at]
  return at < end && length > 0 && length < 64 && at + 1 + length <= end
    ? bytes.subarray(at + 1, at + 1 + length)
    : undefined
}
