/**
 * Watcher: frames in, verdicts on flow records out, under one contract. No files, no clock, no network.
 *
 * The same decoding, flows, rows and judging as `oddflow score`, by the same packages; what is added is that a
 * verdict does not wait for the end of a flow: a row goes out as soon as no packet can change it.
 *
 * A record that is left over at the end of a long flow was part of a flow already judged, and is counted alone.
 */
import {
  createPacketDecoder,
  type FrameBatch,
  PACKET_OK,
  type PacketBatch,
  PacketCheck,
  type PacketCheckCounts,
  type PacketFilter,
  packetStatusCode,
} from '@oddflow/capture'
import { packetView } from '@oddflow/core'
import { createFlowExtractor, type FlowCounters, type FlowRecord } from '@oddflow/flows'
import type { VerdictRule } from '@oddflow/program'
import type { Delivery } from '../outputs/delivery.js'
import type { AlertLog } from '../spool/alert-log.js'
import type { AgentVerdict, Decider } from './counters.js'
import type { Overload } from './overload.js'

/** A hash of one end of a packet: address and port, four words and one. The same end has the same in both directions. */
export function endpointHash(words: Uint32Array, at: number, port: number, seed: number): number {
  let hash = seed | 0
  for (let i = 0; i < 4; i++) {
    hash = Math.imul(hash ^ words[at + i], 0x85ebca6b)
    hash ^= hash >>> 13
  }
  hash = Math.imul(hash ^ port, 0xc2b2ae35)
  return hash ^ (hash >>> 16)
}

/**
 * Room: whether an input that can wait should, since alerts in memory wait for something that works.
 *
 * With a state folder alerts are in memory until the disk has them, and an output that is down leaves them there: the
 * disk alone is waited for. Without one they are in memory until the slowest output has them: each output that works is waited
 * for, for what is held for it alone, and one that fails is not. What fails would be waited for without end; what it cannot
 * take is refused or dropped, and counted.
 */

export function isWorthWaiting(
  log: Pick<AlertLog, 'lastError' | 'pendingBytes'>,
  deliveries: readonly Pick<Delivery, 'lastError' | 'memoryBytes'>[],
  enoughBytes: number,
): boolean {
  if (log.lastError === null && log.pendingBytes > enoughBytes) return true
  return deliveries.some(({ lastError, memoryBytes }) => lastError === null && memoryBytes > enoughBytes)
}

export const BATCH_FRAMES = 1024
/** Steps of the clock that are remembered; flows are never open over more. */
const MAXIMUM_STEPS = 64

interface WatcherOptions {
  readonly decider: Decider
  readonly filter: PacketFilter | null
  /** Copies of a packet are in no flow. */
  readonly dropDuplicates?: boolean
  /** Of open flows. */
  readonly memoryBytes: number
  readonly hashSeed: number
  /** Says which packets are left out; none where there is none. */
  readonly overload?: Overload
  /**
   * A novel record, or one that an answer made normal (`answered`). The record is borrowed: it and its arrays are valid until the call returns. `clockMicros`: by how much the packets' clock was
   * set since the record's first packet.
   */
  readonly onNovel: (record: FlowRecord, verdict: AgentVerdict, clockMicros: number) => void
  /** Packets that came, dropped copies and those that the filter took out by their status; borrowed as records are. */
  readonly onPackets?: (frames: FrameBatch, packets: PacketBatch) => void
  /** The packets' clock was set by so much; verdicts that follow have times of the clock as it is now. */
  readonly onClockStep?: (byMicros: number) => void
  /**
   * Every verdict, before `onNovel`. The record's start is of the clock as it is now, whatever it was then.
   */
  readonly onVerdict?: (record: FlowRecord, verdict: AgentVerdict) => void
}

export interface WatcherCounts {
  /** Frames that were read. */
  frames: number
  /** Verdicts by the rule that gave them. */
  readonly judged: Record<VerdictRule, number>
  readonly novel: Record<VerdictRule, number>
  /** Verdicts that were given before the flow had ended. */
  early: number
  /** Packets that the filter took out. */
  filtered: number
  /** Packets that were left out in an overload. */
  shed: number
  /** The capture's time up to which packets have come (FlowExtractor); −Infinity before the first. */
  latestMicros: number
}

export interface Watcher {
  /** As of FlowExtractor. */
  clockSet(byMicros: number): void
  /** At most BATCH_FRAMES frames. */
  add(frames: FrameBatch): void
  /** No packet older than `nowMicros` is to come: ends idle flows, and gives the verdicts that time has made due. */
  expire(nowMicros: number): void
  /** Ends at most `limit` flows; true if some are left, else the frames that follow are another capture's. */
  endCapture(limit: number): boolean
  /** The same; no more frames may come. */
  finish(limit: number): boolean
  readonly counts: WatcherCounts
  /** Of the packets that the filter let through. */
  readonly check: Readonly<PacketCheckCounts>
  flowCounters(): FlowCounters
  /** Flows that have begun. */
  readonly flows: number
  readonly openFlows: number
  readonly maximumFlows: number
}

const FILTERED_OUT = packetStatusCode('filtered-out')

export function createWatcher(options: WatcherOptions): Watcher {
  const { decider } = options
  const { contract, row } = decider
  const view = packetView(contract)
  const decoder = createPacketDecoder({
    decapsulate: view.decapsulation,
    joinFragments: view.joinFragments,
    hashSeed: options.hashSeed,
  })
  const counts: WatcherCounts = {
    frames: 0,
    judged: { score: 0, 'one-packet': 0, 'not-judged': 0 },
    novel: { score: 0, 'one-packet': 0, 'not-judged': 0 },
    early: 0,
    filtered: 0,
    shed: 0,
    latestMicros: Number.NEGATIVE_INFINITY,
  }
  const steps: { readonly packetNumber: number; readonly byMicros: number }[] = []
  /** By how much the clock was set since the record began. */
  const clockMicrosOf = ({ firstPacketNumber }: FlowRecord): number => {
    let sum = 0
    for (const { packetNumber, byMicros } of steps) if (firstPacketNumber < packetNumber) sum += byMicros
    return sum
  }
  const decide = (record: FlowRecord, early: boolean): void => {
    const decision = decider.decide(record)
    const clockMicros = clockMicrosOf(record)
    const ofNow = clockMicros === 0 ? record : { ...record, startMicros: record.startMicros + clockMicros }
    const { rule, novel } = decision
    counts.judged[rule]++
    if (early) counts.early++
    options.onVerdict?.(ofNow, decision)
    if (novel) counts.novel[rule]++
    else if (decision.answered === undefined) return
    options.onNovel(record, { ...decision, early }, clockMicros)
  }
  const sourceHash = (of: PacketBatch, i: number): number =>
    endpointHash(of.sourceAddress, 4 * i, of.sourcePort[i], options.hashSeed)
  const destinationHash = (of: PacketBatch, i: number): number =>
    endpointHash(of.destinationAddress, 4 * i, of.destinationPort[i], options.hashSeed)
  const admitsFlow = (overload: Overload) => (of: PacketBatch, i: number) => {
    if (overload.admitsAll || overload.admits(sourceHash(of, i), destinationHash(of, i))) return true
    counts.shed++
    return false
  }
  const extractor = createFlowExtractor({
    contract,
    row,
    hashSeed: options.hashSeed,
    memoryBytes: options.memoryBytes,
    ...(options.overload === undefined ? {} : { admitsFlow: admitsFlow(options.overload) }),
    onClockStep(byMicros, packetNumber) {
      steps.push({ packetNumber, byMicros })
      if (steps.length > MAXIMUM_STEPS) steps.shift()
      options.onClockStep?.(byMicros)
    },
    onEarlyRow: (record) => decide(record, true),
    onRecord: (record) => {
      if (record.rowGivenEarly || record.noRowReason === 'remainder') return
      decide(record, false)
    },
  })
  const check = new PacketCheck({
    dropDuplicates: options.dropDuplicates === true,
    hashSeed: options.hashSeed,
  })
  const packets = extractor.createBatch(BATCH_FRAMES)
  return {
    counts,
    check: check.counts,
    add(frames) {
      decoder.decode(frames, packets)
      // a recorder that was started again counts from 0
      packets.firstFrame = counts.frames
      counts.frames += frames.count
      const { filter, overload } = options
      for (let i = 0; i < packets.count; i++) {
        if (filter === null || filter(packets, i)) check.look(frames, packets, i)
        else {
          packets.status[i] = FILTERED_OUT
          counts.filtered++
        }
      }
      // behind it, so that an alert's packets are those of its flow
      options.onPackets?.(frames, packets)
      if (overload?.shedsOpenFlows) {
        for (let i = 0; i < packets.count; i++) {
          if (packets.status[i] !== PACKET_OK) continue
          if (!overload.sheds(sourceHash(packets, i), destinationHash(packets, i))) continue
          packets.status[i] = FILTERED_OUT
          counts.shed++
        }
      }
      extractor.add(packets)
      counts.latestMicros = extractor.latestMicros
    },
    clockSet: (byMicros) => extractor.clockSet(byMicros),
    expire: (nowMicros) => extractor.expire(nowMicros),
    endCapture(limit) {
      if (extractor.endFlows(limit)) return true
      extractor.endCapture()
      return false
    },
    finish(limit) {
      if (extractor.endFlows(limit)) return true
      extractor.finish()
      return false
    },
    flowCounters: () => extractor.counters(),
    get flows() {
      return extractor.flows
    },
    get openFlows() {
      return extractor.openFlows
    },
    maximumFlows: extractor.maximumFlows,
  }
}
