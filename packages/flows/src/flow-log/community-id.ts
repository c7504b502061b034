/**
 * Community ID, version 1 (github.com/corelight/community-id-spec): a flow's identifier that Zeek, Suricata and others
 * compute in the same way, to join records of different tools.
 *
 * "1:" and the base64 of SHA-1 over seed, both addresses, protocol, a zero byte and both ports, the lower (address, port)
 * first. For ICMP the ports are a request's type and its reply's, or, without a reply, type and code in their direction.
 */

/**
 * SHA-1 (RFC 3174), not for security: twenty bytes, in `digest`. Written out because it must be synchronous in browsers,
 * where the platform's digest is asynchronous. A flow record has two of them, so the four kinds of rounds are unrolled.
 * @param length - how many bytes of `message` are hashed
 */
export function sha1(
  message: Uint8Array,
  length = message.length,
  digest: Uint8Array = new Uint8Array(20),
): Uint8Array {
  state[0] = 0x67452301
  state[1] = 0xefcdab89
  state[2] = 0x98badcfe
  state[3] = 0x10325476
  state[4] = 0xc3d2e1f0
  const blocks = ((length + 8) >> 6) + 1
  for (let b = 0; b < blocks; b++) {
    for (let t = 0; t < 16; t++) words[t] = paddedWord(message, length, 64 * b + 4 * t)
    if (b === blocks - 1) {
      words[14] = Math.floor(length / 0x20000000)
      words[15] = length << 3
    }
    mix()
  }
  for (let i = 0; i < 20; i++) digest[i] = state[i >> 2] >>> (24 - 8 * (i & 3))
  return digest
}

/** The state, and the schedule of the current block; nothing lasts between calls. */
const state = new Int32Array(5)
const words = new Int32Array(80)

/** Four bytes of the message, which is followed by a set bit and zeros. */
function paddedWord(message: Uint8Array, length: number, at: number): number {
  if (at + 4 <= length) {
    return (message[at] << 24) | (message[at + 1] << 16) | (message[at + 2] << 8) | message[at + 3]
  }
  let word = 0
  for (let k = 0; k < 4; k++) {
    const byte = at + k < length ? message[at + k] : at + k === length ? 0x80 : 0
    word = (word << 8) | byte
  }
  return word
}

function mix(): void {
  for (let t = 16; t < 80; t++) {
    const word = words[t - 3] ^ words[t - 8] ^ words[t - 14] ^ words[t - 16]
    words[t] = (word << 1) | (word >>> 31)
  }
  let a = state[0]
  let b = state[1]
  let c = state[2]
  let d = state[3]
  let e = state[4]
  for (let t = 0; t < 20; t++) {
    const next = (((a << 5) | (a >>> 27)) + ((b & c) | (~b & d)) + e + 0x5a827999 + words[t]) | 0
    e = d
    d = c
    c = (b << 30) | (b >>> 2)
    b = a
    a = next
  }
  for (let t = 20; t < 40; t++) {
    const next = (((a << 5) | (a >>> 27)) + (b ^ c ^ d) + e + 0x6ed9eba1 + words[t]) | 0
    e = d
    d = c
    c = (b << 30) | (b >>> 2)
    b = a
    a = next
  }
  for (let t = 40; t < 60; t++) {
    const next = (((a << 5) | (a >>> 27)) + ((b & c) | (b & d) | (c & d)) + e + 0x8f1bbcdc + words[t]) | 0
    e = d
    d = c
    c = (b << 30) | (b >>> 2)
    b = a
    a = next
  }
  for (let t = 60; t < 80; t++) {
    const next = (((a << 5) | (a >>> 27)) + (b ^ c ^ d) + e + 0xca62c1d6 + words[t]) | 0
    e = d
    d = c
    c = (b << 30) | (b >>> 2)
    b = a
    a = next
  }
  state[0] += a
  state[1] += b
  state[2] += c
  state[3] += d
  state[4] += e
}

/** The ends of a flow, for its Community ID. */
export interface CommunityIdFlow {
  /** 4 or 6. */
  readonly ipVersion: number
  /** IANA protocol number. */
  readonly protocol: number
  /** Four words, most significant first; IPv4 in the last. */
  readonly sourceAddress: Uint32Array
  readonly destinationAddress: Uint32Array
  /** ICMP: type, and code or the type of the counterpart. Ignored for protocols without ports. */
  readonly sourcePort: number
  readonly destinationPort: number
}

const ICMP = 1
const ICMPV6 = 58
const WITH_PORTS: readonly number[] = [ICMP, 6, 17, ICMPV6, 132]

/** Type to the type of its counterpart. The specification gives none for type 9. */
const ICMP_COUNTERPARTS = bothWays([8, 0], [13, 14], [15, 16], [17, 18]).set(10, 9)
const ICMPV6_COUNTERPARTS = bothWays([128, 129], [130, 131], [133, 134], [135, 136], [139, 140], [144, 145])

function bothWays(...pairs: readonly (readonly [number, number])[]): Map<number, number> {
  return new Map([...pairs, ...pairs.map(([a, b]) => [b, a] as const)])
}

/** @param seed - 0 … 65,535; all tools at a site use the same. */
export function communityId(flow: CommunityIdFlow, seed = 0): string {
  const { protocol, ipVersion } = flow
  let { sourcePort, destinationPort } = flow
  let oneWay = false
  if (protocol === ICMP || protocol === ICMPV6) {
    const counterpart = (protocol === ICMP ? ICMP_COUNTERPARTS : ICMPV6_COUNTERPARTS).get(sourcePort)
    if (counterpart === undefined) oneWay = true
    else destinationPort = counterpart
  }
  const ports = WITH_PORTS.includes(protocol)
  if (!ports) sourcePort = destinationPort = 0
  const words = ipVersion === 4 ? 1 : 4
  let order = 0
  for (let w = 4 - words; w < 4 && order === 0; w++) {
    order = flow.sourceAddress[w] - flow.destinationAddress[w]
  }
  if (order === 0) order = sourcePort - destinationPort
  const swapped = order > 0 && !oneWay
  const first = swapped ? flow.destinationAddress : flow.sourceAddress
  const second = swapped ? flow.sourceAddress : flow.destinationAddress
  view.setUint16(0, seed)
  for (let w = 0; w < words; w++) {
    view.setUint32(2 + 4 * w, first[4 - words + w])
    view.setUint32(2 + 4 * words + 4 * w, second[4 - words + w])
  }
  const at = 2 + 8 * words
  message[at] = protocol
  message[at + 1] = 0
  if (ports) {
    view.setUint16(at + 2, swapped ? destinationPort : sourcePort)
    view.setUint16(at + 4, swapped ? sourcePort : destinationPort)
  }
  return `1:${encodeBase64(sha1(message, at + (ports ? 6 : 2), digest))}`
}

/** Input and result of the hash; nothing lasts between calls. */
const message = new Uint8Array(40)
const view = new DataView(message.buffer)
const digest = new Uint8Array(20)

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
/** Two characters for each twelve bits. */
const PAIRS = Array.from({ length: 4096 }, (_, bits) => ALPHABET[bits >> 6] + ALPHABET[bits & 63])

/** Of twenty bytes: 27 characters and a filler. */
function encodeBase64(bytes: Uint8Array): string {
  let text = ''
  for (let i = 0; i < 18; i += 3) {
    text += PAIRS[(bytes[i] << 4) | (bytes[i + 1] >> 4)] + PAIRS[((bytes[i + 1] & 15) << 8) | bytes[i + 2]]
  }
  return `${text}${PAIRS[(bytes[18] << 4) | (bytes[19] >> 4)]}${ALPHABET[(bytes[19] & 15) << 2]}=`
}
