/**
 * The name that a DHCPv6 client gives itself: the first label of its fully qualified name (RFC 4704, option 39), in
 * messages of clients (RFC 8415). The client is whoever sent the frame; relayed messages are not opened.
 *
 *     type 1, transaction 3, then options: code 2, length 2, value
 */
import { firstLabel } from './dhcp-name.js'

/** SOLICIT, REQUEST, CONFIRM, RENEW, REBIND, RELEASE, DECLINE, INFORMATION-REQUEST. */
const OF_CLIENTS = new Set([1, 3, 4, 5, 6, 8, 9, 11])
const CLIENT_FQDN = 39

export function readDhcpv6Name(bytes: Uint8Array, start: number, end: number): string | null {
  if (end - start < 4 || !OF_CLIENTS.has(bytes[start])) return null
  for (let at = start + 4; at + 4 <= end; ) {
    const code = (bytes[at] << 8) | bytes[at + 1]
    const value = at + 4
    const after = value + ((bytes[at + 2] << 8) | bytes[at + 3])
    if (after > end) return null
    // one byte of flags
    if (code === CLIENT_FQDN && after > value) return firstLabel(bytes, value + 1, after)
    at = after
  }
  return null
}
