/**
 * The packet pass: a run of ordinary packets through the flow table and into their records, in one call.
 *
 * A packet is ordinary if nothing begins or ends with it: its headers were read, its flow is in the table and has been
 * silent for no longer than the idle timeout, its time is not before the last one, it stays in the flow's
 * record, and there is room for what is kept of it. The pass stops in front of the first packet that is not, having
 * changed nothing for it, and FlowTracker takes that one. So what a flow is stands in one place, in TypeScript;
 * here is what nearly all packets cost, and src/packet-pass.ts has the memory that both see.
 *
 * What is done for a packet is what FlowTracker.add, RecordCutter.append and RecordEntries.keep do for it, in the
 * same arithmetic; test/packet-pass.test.ts holds the two against each other.
 *
 * Memory is read ahead: first the keys of up to 64 packets are hashed, then their slots are read, then their flows'
 * lines. These reads wait for no other, so memory answers them together.
 *
 * Addresses are bytes. Layouts: lines, src/flow-record.ts; logs, src/activity-log.ts; state, src/memory-budget.ts;
 * entries, src/flow-table.ts; sums, src/feature-sets/flow-summary.ts. The order of fields in Pass is that of src/packet-pass.ts.
 */

@unmanaged
class Pass {
  /** The batch, in columns. */
  timestampMicros: usize
  sizes: usize
  ipBytes: usize
  sourceAddress: usize
  destinationAddress: usize
  sourcePort: usize
  destinationPort: usize
  status: usize
  ipVersion: usize
  protocol: usize
  tcpFlags: usize
  vlan: usize
  /** Scratch for 64 packets: keys of ten words, hashes, whether the source is end b. */
  keys: usize
  hashes: usize
  swapped: usize
  /** The packets that scratch holds. */
  preparedFrom: i32
  preparedTo: i32
  /** Nobody reads it: it stands for what was read ahead. */
  warmth: i32
  /** A byte for each protocol: whether it makes flows. */
  makesFlows: usize
  slots: usize
  mask: i32
  key0: u32
  key1: u32
  lines: usize
  halfOpen: usize
  established: usize
  /** USED, LIMIT, COUNT, FIRST of both logs. */
  logs: usize
  state: usize
  poolFloats: usize
  poolWords: usize
  poolNext: usize
  /** First free chunk, chunks that were ever taken. */
  pool: usize
  poolChunks: i32
  maximumEntries: i32
  /** What an entry has: an interarrival time, a size. */
  keepsTimes: i32
  keepsSizes: i32
  /** Rows go out as soon as they are settled. */
  early: i32
  /** Packets later than the duration begin a new record. */
  split: i32
  /** Latest time of any packet: one double. */
  clock: usize
  /** Rows are made of running sums, and there is no pool. */
  keepsSums: i32
  sums: usize
  /** TCP flows end when they close: what closes a flow, and what comes long after that, is not ordinary. */
  closes: i32
  /** When each flow closed, doubles. */
  closedMicros: usize
  /** A packet later than this double is not ordinary: a closed flow has to be given out. */
  closeDeadline: usize
  /** The VLAN is part of the key. */
  vlanKey: i32
  idleMicros: f64
  durationMicros: f64
  /** Infinity if there is none. */
  activeTimeoutMicros: f64
}

const PREPARED: i32 = 64
const KEY_BYTES: usize = 40
const IPV4_KEY_WORDS: i32 = 4
const KEY_WORDS: i32 = 10
const NONE: i32 = -1

// A line.
const LINE_BYTES_LOG2: usize = 6
const PLACE: usize = 44
const LAST_MICROS: usize = 48
const KIND: usize = 56
const ENDS: usize = 60
const SWAPPED: i32 = 1
const SENT: i32 = 2
const SENTS: i32 = 6
const SENT_FIN: i32 = 8
const FINS: i32 = 24
const LINGER_MICROS: f64 = 500_000

// Both logs.
const USED: usize = 0
const LIMIT: usize = 4
const COUNT: usize = 8
const LOG_BYTES: usize = 16
const HALF_OPEN: i32 = 0
const ESTABLISHED: i32 = 1
const CLOSING: i32 = 2

// The state of a record.
const STATE_BYTES_LOG2: usize = 7
const START: usize = 0
const LAST: usize = 8
const PACKETS: usize = 16
const ROW_PACKETS: usize = 24
const BYTES: usize = 32
const IP: usize = 40
const ENTRIES: usize = 48
const TAIL: usize = 56
const HEAD: usize = 64
const INITIATOR_PACKETS: usize = 88
const INITIATOR_BYTES: usize = 96
const INITIATOR_IP: usize = 104
const FLAGS: usize = 112
/** Negative once the row went out. */
const PIECE: usize = 120

// The running sums of a record.
const SUMS_BYTES_LOG2: usize = 6
const MAXIMUM: usize = 0
const SQUARES: usize = 16
const FIRST_SIZE: usize = 32
const MAXIMUM_IAT: usize = 48
const FIRST_IAT: usize = 56

const FIN: i32 = 1
const SYN: i32 = 2
const RST: i32 = 4
const SYN_ACK: i32 = 18

/** Takes packets from number `from` on, up to `to`; returns the first that is not ordinary, or `to`. */
export function run(pass: usize, from: i32, to: i32): i32 {
  const p = changetype<Pass>(pass)
  let clock = load<f64>(p.clock)
  let i = from
  for (; i < to; i++) {
    if (i < p.preparedFrom || i >= p.preparedTo) prepare(p, i, min(i + PREPARED, to))
    if (load<u8>(p.status + usize(i)) !== 0) break
    if (load<u8>(p.makesFlows + usize(load<u8>(p.protocol + usize(i)))) === 0) break
    const flow = search(p, i)
    if (flow < 0) break
    const line = p.lines + (usize(flow) << LINE_BYTES_LOG2)
    const time = load<f64>(p.timestampMicros + (usize(i) << 3))
    const before = load<f64>(line, LAST_MICROS)
    // Not a number is neither.
    if (!(time >= before && time - before <= p.idleMicros)) break

    const at = p.state + (usize(flow) << STATE_BYTES_LOG2)
    const age = time - load<f64>(at, START)
    const late = age > p.durationMicros
    if (age > p.activeTimeoutMicros || (late && p.split !== 0)) break
    const free = load<i32>(p.pool)
    const touched = load<i32>(p.pool, 4)
    if (free === NONE && touched === p.poolChunks && p.keepsSums === 0) break
    const entries = i32(load<f64>(at, ENTRIES))
    const keeps = !late && entries < p.maximumEntries && load<f64>(at, PIECE) > 0
    if (keeps && p.early !== 0 && entries + 1 === p.maximumEntries) break

    const flags = i32(load<u8>(p.tcpFlags + usize(i)))
    const kind = load<i32>(line, KIND)
    const ends = load<i32>(line, ENDS)
    const isInitiator = i32(load<u8>(p.swapped + usize(i - p.preparedFrom))) === (ends & SWAPPED)
    let noted = ends
    if (p.closes !== 0) {
      const isFin = (flags & FIN) !== 0
      noted |= isInitiator ? (isFin ? SENT | SENT_FIN : SENT) : (isFin ? SENT | SENT_FIN : SENT) << 1
      if (time > load<f64>(p.closeDeadline) || closesOrBegins(kind, flags, ends, noted)) break
      if (kind === CLOSING && time - load<f64>(p.closedMicros + (usize(flow) << 3)) > LINGER_MICROS) break
    }
    const next = (flags & SYN_ACK) === SYN && kind === HALF_OPEN ? HALF_OPEN : ESTABLISHED
    const log = p.logs + usize(next) * LOG_BYTES
    const place = load<i32>(log, USED)
    if (kind < CLOSING && place === load<i32>(log, LIMIT)) break

    // The packet is ordinary.
    if (time > clock) clock = time
    if (kind < CLOSING) {
      const dead = load<i32>(line, PLACE)
      store<i32>((kind === HALF_OPEN ? p.halfOpen : p.established) + (usize(dead) << 2), -2 - dead)
      store<i32>((next === HALF_OPEN ? p.halfOpen : p.established) + (usize(place) << 2), flow)
      store<i32>(log, place + 1, USED)
      store<i32>(line, place, PLACE)
      if (kind !== next) {
        store<i32>(line, next, KIND)
        store<i32>(log, load<i32>(log, COUNT) + 1, COUNT)
        const left = p.logs + usize(kind) * LOG_BYTES
        store<i32>(left, load<i32>(left, COUNT) - 1, COUNT)
      }
    }
    store<f64>(line, time, LAST_MICROS)
    if (noted !== ends) store<i32>(line, noted, ENDS)

    const iat = time - load<f64>(at, LAST)
    const size = load<u32>(p.sizes + (usize(i) << 2))
    const ip = f64(load<u32>(p.ipBytes + (usize(i) << 2)))
    store<f64>(at, time, LAST)
    store<f64>(at, load<f64>(at, PACKETS) + 1, PACKETS)
    store<f64>(at, load<f64>(at, BYTES) + f64(size), BYTES)
    store<f64>(at, load<f64>(at, IP) + ip, IP)
    const seen = i32(load<f64>(at, FLAGS))
    if (isInitiator) {
      store<f64>(at, load<f64>(at, INITIATOR_PACKETS) + 1, INITIATOR_PACKETS)
      store<f64>(at, load<f64>(at, INITIATOR_BYTES) + f64(size), INITIATOR_BYTES)
      store<f64>(at, load<f64>(at, INITIATOR_IP) + ip, INITIATOR_IP)
      store<f64>(at, f64(seen | flags), FLAGS)
    } else store<f64>(at, f64(seen | (flags << 8)), FLAGS)
    if (late) continue
    store<f64>(at, load<f64>(at, ROW_PACKETS) + 1, ROW_PACKETS)
    if (p.keepsSums !== 0) {
      addToSums(
        p.sums + (usize(flow) << SUMS_BYTES_LOG2),
        f64(size),
        iat,
        isInitiator,
        load<f64>(at, PACKETS) === 2,
      )
      continue
    }
    if (!keeps) continue

    let chunk = i32(load<f64>(at, TAIL))
    const inChunk = entries & 3
    if (inChunk === 0) {
      const tail = chunk
      if (free === NONE) {
        chunk = touched
        store<i32>(p.pool, touched + 1, 4)
      } else {
        chunk = free
        store<i32>(p.pool, load<i32>(p.poolNext + (usize(chunk) << 2)))
      }
      store<i32>(p.poolNext + (usize(chunk) << 2), NONE)
      if (tail !== NONE) store<i32>(p.poolNext + (usize(tail) << 2), chunk)
      store<f64>(at, f64(chunk), TAIL)
      if (entries === 0) store<f64>(at, f64(chunk), HEAD)
    }
    const entry = usize((chunk << 2) + inChunk)
    if (p.keepsTimes !== 0) store<f64>(p.poolFloats + (entry << 3), iat)
    if (p.keepsSizes !== 0) store<u32>(p.poolWords + (entry << 2), size)
    store<f64>(at, f64(entries + 1), ENTRIES)
  }
  store<f64>(p.clock, clock)
  return i
}

/**
 * Whether a packet closes its flow, or begins another, or comes after the close: FlowTracker takes those.
 * @param ends, noted - the flow's bits in front of the packet, and behind it.
 */
function closesOrBegins(kind: i32, flags: i32, ends: i32, noted: i32): bool {
  const isSyn = (flags & SYN_ACK) === SYN
  if (kind >= CLOSING) return kind > CLOSING || isSyn
  if ((flags & RST) !== 0 || (isSyn && (ends & FINS) !== 0)) return true
  return (noted & FINS) === (noted & SENTS) * (SENT_FIN / SENT)
}

/** As addToSums in src/feature-sets/flow-summary.ts. */
function addToSums(sums: usize, size: f64, iat: f64, isInitiator: bool, isSecond: bool): void {
  const end = isInitiator ? sums : sums + 8
  if (size > load<f64>(end, MAXIMUM)) store<f64>(end, size, MAXIMUM)
  store<f64>(end, load<f64>(end, SQUARES) + size * size, SQUARES)
  if (load<f64>(end, FIRST_SIZE) === 0) store<f64>(end, size, FIRST_SIZE)
  if (iat > load<f64>(sums, MAXIMUM_IAT)) store<f64>(sums, iat, MAXIMUM_IAT)
  if (isSecond) store<f64>(sums, iat, FIRST_IAT)
}

/** The flow of packet i, which is prepared, or -1. */
function search(p: Pass, i: i32): i32 {
  const k = usize(i - p.preparedFrom)
  const key = p.keys + k * KEY_BYTES
  const hash = load<i32>(p.hashes + (k << 2))
  const words = load<u8>(p.ipVersion + usize(i)) === 4 ? IPV4_KEY_WORDS : KEY_WORDS
  const slots = p.slots
  const mask = p.mask
  let slot = hash & mask
  let at = slots + (usize(slot) << 3)
  let entry = load<i32>(at, 4)
  while (entry !== 0) {
    if (load<i32>(at) === hash) {
      const held = p.lines + (usize(entry - 1) << LINE_BYTES_LOG2)
      if (
        load<u64>(held) === load<u64>(key) &&
        load<u64>(held, 8) === load<u64>(key, 8) &&
        (words === IPV4_KEY_WORDS ||
          (load<u64>(held, 16) === load<u64>(key, 16) &&
            load<u64>(held, 24) === load<u64>(key, 24) &&
            load<u64>(held, 32) === load<u64>(key, 32)))
      ) {
        return entry - 1
      }
    }
    slot = (slot + 1) & mask
    at = slots + (usize(slot) << 3)
    entry = load<i32>(at, 4)
  }
  return NONE
}

/** Hashes the keys of packets `from` to `to`, at most 64, and reads what will be read for them. */
function prepare(p: Pass, from: i32, to: i32): void {
  p.preparedFrom = from
  p.preparedTo = to
  let key = p.keys
  let hash = p.hashes
  for (let i = from; i < to; i++) {
    const isIpv4 = load<u8>(p.ipVersion + usize(i)) === 4
    store<u8>(p.swapped + usize(i - from), writeKey(p, i, key, isIpv4) ? 1 : 0)
    store<u32>(hash, halfSipHash13(key, isIpv4 ? IPV4_KEY_WORDS : KEY_WORDS, p.key0, p.key1))
    key += KEY_BYTES
    hash += 4
  }
  const slots = p.slots
  const mask = p.mask
  const hashes = p.hashes
  // The hashes are still needed: what the slots say stands where the swapped bytes end.
  const flows = p.swapped + usize(PREPARED)
  const count = usize(to - from)
  for (let k: usize = 0; k < count; k++) {
    const slot = load<i32>(hashes + (k << 2)) & mask
    store<i32>(flows + (k << 2), load<i32>(slots + (usize(slot) << 3), 4) - 1)
  }
  let read: i32 = 0
  for (let k: usize = 0; k < count; k++) {
    const flow = load<i32>(flows + (k << 2))
    if (flow < 0) continue
    const at = p.state + (usize(flow) << STATE_BYTES_LOG2)
    read ^= load<i32>(p.lines + (usize(flow) << LINE_BYTES_LOG2)) ^ load<i32>(at) ^ load<i32>(at, 64)
    if (p.keepsSums !== 0) read ^= load<i32>(p.sums + (usize(flow) << SUMS_BYTES_LOG2))
  }
  p.warmth = read
}

/** As writeKey in src/flow-record.ts; true if the source is end b. */
function writeKey(p: Pass, i: i32, key: usize, isIpv4: bool): bool {
  const source = p.sourceAddress + (usize(i) << 4)
  const destination = p.destinationAddress + (usize(i) << 4)
  const sourcePort = u32(load<u16>(p.sourcePort + (usize(i) << 1)))
  const destinationPort = u32(load<u16>(p.destinationPort + (usize(i) << 1)))
  const s = load<u32>(source, 12)
  const d = load<u32>(destination, 12)
  const swapped = isIpv4
    ? s > d || (s === d && sourcePort > destinationPort)
    : comesAfter(source, destination, s, d, sourcePort, destinationPort)
  const vlan = p.vlanKey === 0 ? 0 : u32(load<u16>(p.vlan + (usize(i) << 1))) << 16
  store<u32>(key, vlan | (u32(load<u8>(p.protocol + usize(i))) << 8) | u32(load<u8>(p.ipVersion + usize(i))))
  store<u32>(key, swapped ? (destinationPort << 16) | sourcePort : (sourcePort << 16) | destinationPort, 4)
  store<u32>(key, swapped ? d : s, 8)
  store<u32>(key, swapped ? s : d, 12)
  if (!isIpv4) {
    const a = swapped ? destination : source
    const b = swapped ? source : destination
    store<u64>(key, load<u64>(a), 16)
    store<u32>(key, load<u32>(a, 8), 24)
    store<u32>(key, load<u32>(b), 28)
    store<u64>(key, load<u64>(b, 4), 32)
  }
  return swapped
}

function comesAfter(
  source: usize,
  destination: usize,
  s: u32,
  d: u32,
  sourcePort: u32,
  destinationPort: u32,
): bool {
  for (let w: usize = 0; w < 12; w += 4) {
    const x = load<u32>(source + w)
    const y = load<u32>(destination + w)
    if (x !== y) return x > y
  }
  return s > d || (s === d && sourcePort > destinationPort)
}

/** As core's, over whole words. */
function halfSipHash13(words: usize, count: i32, key0: u32, key1: u32): u32 {
  let v0: u32 = key0
  let v1: u32 = key1
  let v2: u32 = key0 ^ 0x6c796765
  let v3: u32 = key1 ^ 0x74656462
  const end = words + (usize(count) << 2)
  // The words; the last block, which holds the length in bytes in its top byte; three rounds of nothing to finish.
  for (let at = words; at <= end + 12; at += 4) {
    const word: u32 = at < end ? load<u32>(at) : at === end ? u32(count) << 26 : 0
    if (at === end + 4) v2 ^= 0xff
    v3 ^= word
    v0 += v1
    v1 = rotl<u32>(v1, 5) ^ v0
    v0 = rotl<u32>(v0, 16)
    v2 += v3
    v3 = rotl<u32>(v3, 8) ^ v2
    v0 += v3
    v3 = rotl<u32>(v3, 7) ^ v0
    v2 += v1
    v1 = rotl<u32>(v1, 13) ^ v2
    v2 = rotl<u32>(v2, 16)
    v0 ^= word
  }
  return v1 ^ v3
}
