/**
 * The name that a device gives itself in multicast DNS (RFC 6762): of a response's records
 *
 *     A, AAAA   NAME.local has the address that the packet came from: NAME is the sender's host name
 *     SRV       a service of the sender is at NAME.local, where the response has no such address
 *     PTR, SRV  INSTANCE._service._tcp.local: what the device calls itself to people (RFC 6763)
 *
 * Proxies answer for others that sleep; an address that is not the sender's names nobody, and is a reason to take
 * nothing else from that response.
 */
import { cleanName } from './clean-name.js'
import { asciiLower, type DomainName, endsWith, readDomainName } from './domain-name.js'

export interface MdnsName {
  readonly host: string | null
  readonly instance: string | null
}

const A = 1
const PTR = 12
const AAAA = 28
const SRV = 33
/** More records than a packet of an honest device has. */
const MAXIMUM_RECORDS = 128

/** @param source - four words, as packets have them. null where the message names nobody. */
export function readMdnsName(
  bytes: Uint8Array,
  start: number,
  end: number,
  source: Uint32Array,
  ipVersion: number,
): MdnsName | null {
  if (end - start < 12) return null
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const isResponse = (bytes[start + 2] & 0xf8) === 0x80
  if (!isResponse) return null
  let at = start + 12
  for (let questions = view.getUint16(start + 4); questions > 0; questions--) {
    const name = readDomainName(bytes, at, start, end)
    if (name === null || name.end + 4 > end) return null
    at = name.end + 4
  }
  const records = [6, 8, 10].reduce((sum, offset) => sum + view.getUint16(start + offset), 0)
  let host: string | null = null
  let service: string | null = null
  let instance: string | null = null
  for (let i = 0; i < Math.min(records, MAXIMUM_RECORDS); i++) {
    const owner = readDomainName(bytes, at, start, end)
    if (owner === null || owner.end + 10 > end) break
    const type = view.getUint16(owner.end)
    const value = owner.end + 10
    const after = value + view.getUint16(owner.end + 8)
    if (after > end) break
    at = after
    if (type === A || type === AAAA) {
      const isOfSender = isAddress(view, value, after, type, source, ipVersion)
      if (isOfSender === false) return null
      if (isOfSender) host ??= hostLabel(owner)
    } else if (type === PTR) {
      const target = readDomainName(bytes, value, start, after)
      if (target !== null) instance ??= instanceLabel(target)
    } else if (type === SRV) {
      instance ??= instanceLabel(owner)
      const target = value + 6 < after ? readDomainName(bytes, value + 6, start, after) : null
      if (target !== null) service ??= hostLabel(target)
    }
  }
  host ??= service
  return host === null && instance === null ? null : { host, instance }
}

/** NAME.local */
function hostLabel({ labels }: DomainName): string | null {
  return labels.length === 2 && endsWith(labels, ['local']) ? cleanName(labels[0]) : null
}

/** INSTANCE._service._tcp.local; a kind of service or a subtype is no instance. */
function instanceLabel({ labels }: DomainName): string | null {
  if (labels.length !== 4 || !endsWith(labels, ['local'])) return null
  const [name, kind, transport] = labels
  const isService = kind[0] === 0x5f && ['_tcp', '_udp'].includes(asciiLower(transport))
  return isService && name[0] !== 0x5f ? cleanName(name) : null
}

/** null where the record is of the other family than the packet, and says nothing. */
function isAddress(
  view: DataView,
  value: number,
  after: number,
  type: number,
  source: Uint32Array,
  ipVersion: number,
): boolean | null {
  const words = type === A ? 1 : 4
  if (ipVersion !== (type === A ? 4 : 6) || after - value !== 4 * words) return null
  for (let w = 0; w < words; w++) if (view.getUint32(value + 4 * w) !== source[4 - words + w]) return false
  return true
}
