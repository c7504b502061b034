/**
 * Watcher: frames in, verdicts on flow records out, under one contract. No files, no clock, no network.
 *
 * Decoding, flows, rows and judging are those of `oddflow score`, but a verdict does not wait for the end of a flow: it is
 * given as soon as no packet can change the row.
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

/** Of one end of a packet: four words of an address, and a port. The same in both directions. */
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
 * Whether an input that can wait should, since alerts in memory wait for a disk or an output that works. What fails is not
 * waited for: that would be without end, and what it cannot take is refused or dropped, and counted.
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
  readonly memoryBytes: number
  readonly hashSeed: number
  /** Says which packets are left out; none where there is none. */
  readonly overload?: Overload
  /**
   * A novel record, or one that an answer made normal (`answered`). The record and its arrays are valid until the call returns.
   * `clockMicros`: by how much the packets' clock was set since the record's first packet.
   */
  readonly onNovel: (record: FlowRecord, verdict: AgentVerdict, clockMicros: number) => void
  /** Packets that arrived, including copies and filtered packets, by status; borrowed as records are. */
  readonly onPackets?: (frames: FrameBatch, packets: PacketBatch) => void
  /** The packets' clock was set by so much; verdicts that follow have times of the clock as it is now. */
  readonly onClockStep?: (byMicros: number) => void
  /** Every verdict, before `onNovel`. The record's start is of the clock as it is now. */
  readonly onVerdict?: (record: FlowRecord, verdict: AgentVerdict) => void
}

export type Watcher = ReturnType<typeof createWatcher>

const FILTERED_OUT = packetStatusCode('filtered-out')

function nothingCounted() {
  const noVerdicts = (): Record<VerdictRule, number> => ({ score: 0, 'one-packet': 0, 'not-judged': 0 })
  return {
    frames: 0,
    judged: noVerdicts(),
    novel: noVerdicts(),
    /** Verdicts before the flow had ended. */
    early: 0,
    filtered: 0,
    /** Packets that were left out in an overload. */
    shed: 0,
    /** The capture's time up to which packets have come (FlowExtractor); −Infinity before the first. */
    latestMicros: Number.NEGATIVE_INFINITY,
  }
}

/** By how much the packets' clock was set since a packet. */
function createClockSteps() {
  const steps: { readonly packetNumber: number; readonly byMicros: number }[] = []
  return {
    add(byMicros: number, packetNumber: number): void {
      steps.push({ packetNumber, byMicros })
      if (steps.length > MAXIMUM_STEPS) steps.shift()
    },
    since(firstPacketNumber: number): number {
      let sum = 0
      for (const { packetNumber, byMicros } of steps) if (firstPacketNumber < packetNumber) sum += byMicros
      return sum
    },
  }
}

/** Leaves packets out in an overload, and counts them. */
function createShedding(overload: Overload, hashSeed: number, counts: { shed: number }) {
  const sourceHash = (of: PacketBatch, i: number): number =>
    endpointHash(of.sourceAddress, 4 * i, of.sourcePort[i], hashSeed)
  const destinationHash = (of: PacketBatch, i: number): number =>
    endpointHash(of.destinationAddress, 4 * i, of.destinationPort[i], hashSeed)
  return {
    admitsFlow(of: PacketBatch, i: number): boolean {
      if (overload.admitsAll || overload.admits(sourceHash(of, i), destinationHash(of, i))) return true
      counts.shed++
      return false
    },
    /** Those of open flows, where it has come so far. */
    leaveOut(of: PacketBatch): void {
      if (!overload.shedsOpenFlows) return
      for (let i = 0; i < of.count; i++) {
        if (of.status[i] !== PACKET_OK) continue
        if (!overload.sheds(sourceHash(of, i), destinationHash(of, i))) continue
        of.status[i] = FILTERED_OUT
        counts.shed++
      }
    },
  }
}

export function createWatcher(options: WatcherOptions) {
  const { decider, filter, overload, hashSeed } = options
  const { contract, row } = decider
  const view = packetView(contract)
  const decoder = createPacketDecoder({
    decapsulate: view.decapsulation,
    joinFragments: view.joinFragments,
    hashSeed,
  })
  const counts = nothingCounted()
  const steps = createClockSteps()
  const decide = (record: FlowRecord, early: boolean): void => {
    const decision = decider.decide(record)
    const clockMicros = steps.since(record.firstPacketNumber)
    const ofNow = clockMicros === 0 ? record : { ...record, startMicros: record.startMicros + clockMicros }
    const { rule, novel } = decision
    counts.judged[rule]++
    if (early) counts.early++
    options.onVerdict?.(ofNow, decision)
    if (novel) counts.novel[rule]++
    else if (decision.answered === undefined) return
    options.onNovel(record, { ...decision, early }, clockMicros)
  }
  const shedding = overload === undefined ? null : createShedding(overload, hashSeed, counts)
  const extractor = createFlowExtractor({
    contract,
    row,
    hashSeed,
    memoryBytes: options.memoryBytes,
    ...(shedding === null ? {} : { admitsFlow: shedding.admitsFlow }),
    onClockStep(byMicros, packetNumber) {
      steps.add(byMicros, packetNumber)
      options.onClockStep?.(byMicros)
    },
    onEarlyRow: (record) => decide(record, true),
    onRecord: (record) => {
      // the rest of a long flow belongs to a flow that was judged
      if (!record.rowGivenEarly && record.noRowReason !== 'remainder') decide(record, false)
    },
  })
  const check = new PacketCheck({ dropDuplicates: options.dropDuplicates === true, hashSeed })
  const packets = extractor.createBatch(BATCH_FRAMES)
  return {
    counts,
    /** Of the packets that the filter let through. */
    check: check.counts as Readonly<PacketCheckCounts>,
    /** At most BATCH_FRAMES frames. */
    add(frames: FrameBatch): void {
      decoder.decode(frames, packets)
      // a recorder that was started again counts from 0
      packets.firstFrame = counts.frames
      counts.frames += frames.count
      for (let i = 0; i < packets.count; i++) {
        if (filter === null || filter(packets, i)) check.look(frames, packets, i)
        else {
          packets.status[i] = FILTERED_OUT
          counts.filtered++
        }
      }
      // behind it, so that an alert's packets are those of its flow
      options.onPackets?.(frames, packets)
      shedding?.leaveOut(packets)
      extractor.add(packets)
      counts.latestMicros = extractor.latestMicros
    },
    /** As of FlowExtractor. */
    clockSet: (byMicros: number): void => extractor.clockSet(byMicros),
    /** No packet older than `nowMicros` is to come: ends idle flows, and gives the verdicts that time has made due. */
    expire: (nowMicros: number): void => extractor.expire(nowMicros),
    /** Ends at most `limit` flows; true if some are left, else the frames that follow are another capture's. */
    endCapture(limit: number): boolean {
      if (extractor.endFlows(limit)) return true
      extractor.endCapture()
      return false
    },
    /** The same; no more frames may come. */
    finish(limit: number): boolean {
      if (extractor.endFlows(limit)) return true
      extractor.finish()
      return false
    },
    flowCounters: (): FlowCounters => extractor.counters(),
    get flows(): number {
      return extractor.flows
    },
    get openFlows(): number {
      return extractor.openFlows
    },
    maximumFlows: extractor.maximumFlows,
  }
}
