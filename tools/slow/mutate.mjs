/**
 * Mutations of captures: what damage, and malice, make of a file.
 *
 * Half of them aim: a walk over the records of a classic pcap, or the blocks of a pcapng, finds the headers,
 * and a mutation writes an extreme into one of their fields (length, count, option) or into the first bytes of
 * a packet, where link, IP and transport headers keep theirs. The other half strikes anywhere: bytes changed,
 * taken out, put in, doubled, the end cut off, the end of another file in its place.
 */

/** Values at the edges of what lengths and counts may be. */
const EXTREMES = [
  0, 1, 2, 3, 4, 7, 8, 11, 12, 15, 16, 19, 20, 28, 60, 64, 127, 128, 255, 256, 1500, 0x7fff, 0x8000, 0xfffe,
  0xffff, 0x10000, 0x3ffff, 0x40000, 0x40001, 0xffffff, 0x1000000, 0x1000001, 0x7fffffff, 0x80000000,
  0xfffffffc, 0xffffffff,
]
/** Headers of link, network, tunnel and transport lie within. */
const HEADER_BYTES = 120
const MAXIMUM_HEADS = 4096

/** Where records or blocks begin; empty where the bytes are no plain capture. */
function headsOf(bytes) {
  if (bytes.length < 28) return []
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const heads = []
  const magic = view.getUint32(0)
  if (magic === 0x0a0d0d0a) {
    const little = view.getUint32(8) !== 0x1a2b3c4d
    for (let at = 0; at + 12 <= bytes.length && heads.length < MAXIMUM_HEADS; ) {
      heads.push(at)
      const length = view.getUint32(at + 4, little)
      if (length < 12) break
      at += length
    }
    return heads
  }
  const little = [0xd4c3b2a1, 0x4d3cb2a1, 0x34cdb2a1].includes(magic)
  if (!little && ![0xa1b2c3d4, 0xa1b23c4d, 0xa1b2cd34].includes(magic)) return []
  const header = magic === 0x34cdb2a1 || magic === 0xa1b2cd34 ? 24 : 16
  for (let at = 24; at + header <= bytes.length && heads.length < MAXIMUM_HEADS; ) {
    heads.push(at)
    at += header + view.getUint32(at + 8, little)
  }
  return heads
}

const pick = (rng, values) => values[rng.nextBelow(values.length)]

function writeExtreme(rng, bytes, at) {
  const size = pick(rng, [1, 2, 4])
  if (at < 0 || at + size > bytes.length) return
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const value = pick(rng, EXTREMES)
  if (size === 1) view.setUint8(at, value)
  else if (size === 2) view.setUint16(at, value, rng.nextBelow(2) === 0)
  else view.setUint32(at, value, rng.nextBelow(2) === 0)
}

function strikeField(rng, bytes, heads) {
  if (heads.length === 0) writeExtreme(rng, bytes, rng.nextBelow(Math.min(bytes.length, 64)))
  else if (rng.nextBelow(8) === 0) writeExtreme(rng, bytes, 4 * rng.nextBelow(7))
  else writeExtreme(rng, bytes, pick(rng, heads) + 4 * rng.nextBelow(8))
}

function strikePacket(rng, bytes, heads) {
  const head = heads.length === 0 ? 0 : pick(rng, heads) + 16
  writeExtreme(rng, bytes, head + rng.nextBelow(HEADER_BYTES))
}

function join(...parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

/** @param other another capture. Returns bytes of its own. */
export function mutate(rng, capture, other) {
  let bytes = capture.slice()
  const heads = headsOf(bytes)
  const times = 1 + rng.nextBelow(4)
  for (let time = 0; time < times && bytes.length > 0; time++) {
    const kind = rng.nextBelow(16)
    const at = rng.nextBelow(bytes.length)
    const length = rng.nextBelow(pick(rng, [4, 64, 1024]))
    if (kind < 5) strikeField(rng, bytes, heads)
    else if (kind < 9) strikePacket(rng, bytes, heads)
    else if (kind < 11) bytes[at] = rng.nextBelow(256)
    else if (kind === 11) bytes = bytes.subarray(0, at)
    else if (kind === 12) bytes = join(bytes.subarray(0, at), bytes.subarray(at + length))
    else if (kind === 13) {
      const noise = Uint8Array.from({ length }, () => rng.nextBelow(256))
      bytes = join(bytes.subarray(0, at), noise, bytes.subarray(at))
    } else if (kind === 14) bytes = join(bytes.subarray(0, at), bytes.subarray(Math.max(0, at - length)))
    else bytes = join(bytes.subarray(0, at), other.subarray(rng.nextBelow(other.length)))
  }
  return bytes
}
