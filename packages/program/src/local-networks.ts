/**
 * LocalNetworks: which addresses are this side's, so that an alert can say which end of a flow is the device.
 *
 * Without a word from the user they are the ranges that no route of the Internet leads to: RFC 1918, RFC 6598
 * (shared address space), RFC 3927 and RFC 4291 (link-local), RFC 4193 (unique local).
 */
import { parseIpv4, parseIpv6 } from '@oddflow/capture'
import { ArgumentError } from '@oddflow/core'

export const PRIVATE_NETWORKS: readonly string[] = [
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '100.64.0.0/10',
  '169.254.0.0/16',
  'fe80::/10',
  'fc00::/7',
]

/** A range of addresses: "192.0.2.0/24", "2001:db8::/32", or one address. */
export interface Network {
  readonly ipVersion: 4 | 6
  /** Four words, as addresses have them in packets. */
  readonly words: Uint32Array
  readonly masks: Uint32Array
}

/** Throws ArgumentError that says what was expected. */
export function parseNetwork(text: string): Network {
  const [address, length, more] = text.split('/')
  const v4 = parseIpv4(address)
  const v6 = v4 === null ? parseIpv6(address) : null
  const bits = v4 === null ? 128 : 32
  const prefix = length === undefined ? bits : /^\d{1,3}$/.test(length) ? Number(length) : -1
  if ((v4 === null && v6 === null) || prefix < 0 || prefix > bits || more !== undefined) {
    throw new ArgumentError(
      `expected an address or a network such as 192.0.2.0/24 or 2001:db8::/32, found ${JSON.stringify(text)}`,
    )
  }
  const words = v6 ?? Uint32Array.of(0, 0, 0, v4!)
  const skipped = v4 === null ? 0 : 96
  const masks = Uint32Array.from({ length: 4 }, (_, w) => maskOf(prefix + skipped - 32 * w))
  return { ipVersion: v4 === null ? 6 : 4, words: words.map((word, w) => word & masks[w]), masks }
}

export function isInNetwork(network: Network, words: ArrayLike<number>, ipVersion: number): boolean {
  if (network.ipVersion !== ipVersion) return false
  for (let w = 0; w < 4; w++) if ((words[w] & network.masks[w]) >>> 0 !== network.words[w]) return false
  return true
}

/** The word with its first `bits` bits set; all from 32 on, none below 1. */
function maskOf(bits: number): number {
  if (bits <= 0) return 0
  return bits >= 32 ? 0xffffffff : (0xffffffff << (32 - bits)) >>> 0
}
