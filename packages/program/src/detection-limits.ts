/**
 * Detection limits: the smallest made attack of each kind (made-attacks.ts) that a model flags in 9 of 10 tries.
 *
 * Made packets go through the real decoder, flow table and judge, by their own time stamps: nothing waits, and the same
 * model and seed give the same limits on every machine. A try counts as flagged where any of its flows is novel.
 *
 * The search goes down from the largest size by factors of ten to the first that is missed, and from there bisects the
 * logarithm. So every larger size that was tried is flagged as well, and an attack that is missed at its largest is
 * *invisible*, whatever becomes of smaller ones. Tries of the same number draw the same numbers at every size.
 */
import { createPacketBatch, createPacketDecoder } from '@oddflow/capture'
import {
  contractProtocols,
  createMatrix,
  createRng,
  exp,
  type FlowContract,
  featureColumns,
  type Matrix,
  packetView,
} from '@oddflow/core'
import { novelRows, rememberedRows, type SavedModel } from '@oddflow/detectors'
import { createFlowCollector, createFlowExtractor, extractRecords, type FlowRecord } from '@oddflow/flows'
import { createFlowJudge } from './flow-judge.js'
import {
  DEFAULT_SITE,
  MADE_ATTACKS,
  type MadeAttack,
  type MadeSite,
  type OpenConnection,
} from './made-attacks.js'
import { createMadeBatches, createPacketMaker, type MadeFrame, type PacketMaker } from './made-packets.js'

export interface DetectionLimit {
  readonly attack: MadeAttack
  /** The smallest size that is flagged in REQUIRED_TRIES of LIMIT_TRIES tries; null: not even the largest is. */
  readonly smallest: number | null
  /** Of an upload: the connection is novel to the model without one, so that the limit says nothing of uploads. */
  readonly isConnectionNovel: boolean
}

export interface DetectionLimits {
  /** In the order of MADE_ATTACKS; empty for a model of bare rows, which no packet can reach. */
  readonly limits: readonly DetectionLimit[]
  /** Where the attacks took place, round trips and open connection as the model knows them; null for bare rows. */
  readonly site: MadeSite | null
  /** Rows that the model itself remembers as normal, and how many of them it flags; null where it remembers none. */
  readonly remembered: { readonly rows: number; readonly flagged: number } | null
  /** Of a model of bare rows: whether it flags a row far beyond all others; null for others, whose limits say it. */
  readonly flagsFarRows: boolean | null
}

export interface DetectionLimitOptions {
  /** Default 1. */
  readonly seed?: number
  /** Default a usual home network. The open connection is the model's where it knows one. */
  readonly site?: MadeSite
  /** Default all. */
  readonly attacks?: readonly MadeAttack[]
}

export const LIMIT_TRIES = 10
export const REQUIRED_TRIES = 9

/** Bisection ends where a step is less than a quarter. */
const SMALLEST_RATIO = 1.25
/** No feature of anybody's rows should be so large. */
const FAR = 1e9
/** 2026-01-01T00:00:00Z */
const START_MICROS = 1_767_225_600_000_000

export function findDetectionLimits(
  saved: SavedModel,
  { seed = 1, site = DEFAULT_SITE, attacks = MADE_ATTACKS }: DetectionLimitOptions = {},
): DetectionLimits {
  const rows = rememberedRows(saved.detector)
  const remembered = rows === null ? null : { rows: rows.rows, flagged: countFlagged(saved, rows) }
  if (saved.contract.featureSet === 'rows') {
    const far = createMatrix(2, saved.contract.dimension)
    far.data.fill(FAR, 0, far.cols).fill(-FAR, far.cols)
    return { limits: [], site: null, remembered, flagsFarRows: countFlagged(saved, far) > 0 }
  }
  const judge = createFrameJudge(saved, site)
  const rng = createRng(seed).fork('detection limits')
  const tryOnce = (attack: MadeAttack, size: number, at: MadeSite, turn: number): boolean =>
    judge((maker) => attack.frames(size, at, rng.fork(`${attack.name} ${turn}`), maker))
  const near = { ...site, roundTripMicros: usualRoundTrips(saved.contract, rows) ?? site.roundTripMicros }
  const usual = { ...near, openConnection: usualConnection(saved.contract, rows, near, tryOnce) }
  const isFlagged = (attack: MadeAttack, size: number): boolean => {
    let missed = 0
    for (let turn = 0; turn < LIMIT_TRIES; turn++) {
      if (!tryOnce(attack, size, usual, turn) && ++missed > LIMIT_TRIES - REQUIRED_TRIES) return false
    }
    return true
  }
  return {
    limits: attacks.map((attack) => ({
      attack,
      smallest: smallestFlagged(attack, isFlagged),
      isConnectionNovel: attack.name === 'upload' && isFlagged(attack, 0),
    })),
    site: usual,
    remembered,
    flagsFarRows: null,
  }
}

/** By factors of ten down to the first size that is missed, then by halves of the logarithm. */
function smallestFlagged(
  attack: MadeAttack,
  isFlagged: (attack: MadeAttack, size: number) => boolean,
): number | null {
  const { lowest, highest } = attack
  if (!isFlagged(attack, highest)) return null
  let flagged = highest
  let missed = 0
  while (missed === 0 && flagged > lowest) {
    const size = Math.max(lowest, Math.floor(flagged / 10))
    if (isFlagged(attack, size)) flagged = size
    else missed = size
  }
  while (missed > 0 && flagged > missed + 1 && flagged / missed > SMALLEST_RATIO) {
    const size = Math.min(flagged - 1, Math.max(missed + 1, Math.round(Math.sqrt(flagged * missed))))
    if (isFlagged(attack, size)) flagged = size
    else missed = size
  }
  return flagged
}

/** Whether the model finds anything novel in what packets a maker is asked for. */
type FrameJudge = (frames: (maker: PacketMaker) => Iterable<MadeFrame>) => boolean

const BATCH_FRAMES = 256

/** The way of a capture: frames, packets, flows, rows, verdicts. */
function createFrameJudge(saved: SavedModel, { routerMac }: MadeSite): FrameJudge {
  const { contract, row, judge } = createFlowJudge(saved)
  let novel = false
  const onRecord = (record: FlowRecord): void => {
    if (!novel) novel = judge(record).novel
  }
  const flows = createFlows(contract, row, onRecord)
  const { decapsulation, joinFragments } = packetView(contract)
  const batchesOf = createMadeBatches(BATCH_FRAMES, routerMac !== null)
  const packets = flows.createBatch(BATCH_FRAMES)
  return (frames) => {
    novel = false
    const decoder = createPacketDecoder({ decapsulate: decapsulation, joinFragments })
    for (const batch of batchesOf(frames(createPacketMaker({ micros: START_MICROS })))) {
      decoder.decode(batch, packets)
      flows.add(packets)
      // a scan is known by its first flows
      if (novel) break
    }
    flows.endCapture()
    return novel
  }
}

interface Flows {
  createBatch: typeof createPacketBatch
  add(packets: ReturnType<typeof createPacketBatch>): void
  endCapture(): void
}

/** Idle-gap rules need whole flows, so those are collected first. */
function createFlows(
  contract: FlowContract,
  row: Float64Array,
  onRecord: (record: FlowRecord) => void,
): Flows {
  if (contract.flowKey !== 'directional-5-tuple') return createFlowExtractor({ contract, row, onRecord })
  const { sizeMeasure, flowKey, idleTimeoutMicros } = contract
  const options = { sizeMeasure, flowKey, idleTimeoutMicros, protocols: contractProtocols(contract) }
  let collector = createFlowCollector(options)
  return {
    createBatch: (capacity) => createPacketBatch(capacity),
    add: (packets) => collector.add(packets),
    endCapture() {
      extractRecords(collector.finish(), contract, (record) => {
        if (record.row !== null) row.set(record.row)
        onRecord(record)
      })
      collector = createFlowCollector(options)
    },
  }
}

const countFlagged = (saved: SavedModel, rows: Matrix): number =>
  novelRows(saved, rows).filter((novel) => novel).length

/**
 * How soon answers come, by the first interarrival times that the model remembers: from the first tenth of them to the
 * last. null where it remembers none.
 */
function usualRoundTrips(contract: FlowContract, rows: Matrix | null): MadeSite['roundTripMicros'] | null {
  const column = featureColumns(contract).findIndex(({ name }) => name === 'first_iat' || name === 'iat1')
  if (rows === null || column < 0) return null
  const unitMicros = featureColumns(contract)[column]!.unit === 'us' ? 1 : 1e6
  const isLogarithm = contract.featureSet === 'flow-summary'
  const times = Array.from({ length: rows.rows }, (_, i) => {
    const value = rows.data[i * rows.cols + column]!
    return unitMicros * (isLogarithm ? exp(value / Math.LOG10E) : value)
  })
    .filter((micros) => micros >= LEAST_ROUND_TRIP_MICROS)
    .sort((a, b) => a - b)
  const at = (share: number): number => times[Math.floor(share * (times.length - 1))]!
  return times.length === 0 ? null : { low: at(0.1), high: at(0.9) }
}

/** Less is no answer: packets that were sent together, or the only one. */
const LEAST_ROUND_TRIP_MICROS = 50

/** Most connections that are tried for one that is normal to the model. */
const MOST_CONNECTIONS = 100

/**
 * A connection of the device as the model remembers it, the longest that it takes for normal when nothing is uploaded;
 * the site's where there is none.
 */
function usualConnection(
  contract: FlowContract,
  rows: Matrix | null,
  site: MadeSite,
  tryOnce: (attack: MadeAttack, size: number, site: MadeSite, turn: number) => boolean,
): OpenConnection {
  const upload = MADE_ATTACKS.find(({ name }) => name === 'upload')!
  const isNormal = (openConnection: OpenConnection): boolean =>
    [0, 1, 2].every((turn) => !tryOnce(upload, 0, { ...site, openConnection }, turn))
  const remembered =
    contract.featureSet === 'flow-summary' && rows !== null ? connectionsOf(contract, rows, site) : []
  return [...remembered.slice(0, MOST_CONNECTIONS), site.openConnection].find(isNormal) ?? site.openConnection
}

/** Connections that rows of flow summaries are of, the longest first. */
function connectionsOf(
  contract: FlowContract,
  { rows, cols, data }: Matrix,
  site: MadeSite,
): OpenConnection[] {
  const names = featureColumns(contract).map(({ name }) => name)
  return Array.from({ length: rows }, (_, i) => {
    const value = (name: string): number => data[i * cols + names.indexOf(name)]!
    const count = (name: string): number => Math.round(exp(value(name)) - 1)
    // a model that compares no services does not remember them
    const port = Math.round(value('service')) - TCP_SERVICES
    const durationMicros = 1e6 * exp(value('duration') / Math.LOG10E)
    // of an exchange the device sends a request and acknowledges the answer, after two packets that open it
    const exchanges = Math.max(1, Math.round((count('initiator_packets') - 2) / 2))
    const messages = (end: string): number[] =>
      shared(count(`${end}_bytes`), count(`${end}_first_size`), count(`${end}_size_max`), exchanges)
    const answers = messages('responder')
    return {
      isTcp: Math.round(value('transport')) === SUMMARY_TCP,
      durationMicros,
      connection: {
        serverPort: port > 0 && port < MULTICAST_SERVICES ? port : site.openConnection.serverPort,
        exchanges: messages('initiator').map((request, i) => ({ request, answer: answers[i]! })),
        intervalMicros: durationMicros / exchanges,
      },
    }
  })
    .filter(({ isTcp, connection: { exchanges } }) => isTcp && exchanges.length <= MOST_EXCHANGES)
    .sort((x, y) => y.durationMicros - x.durationMicros)
    .map(({ connection }) => connection)
}

/** So many messages of so many bytes in all: the first one, the largest one, and the others alike. */
function shared(bytes: number, first: number, largest: number, messages: number): number[] {
  const out = new Array<number>(messages).fill(0)
  let left = bytes
  for (let i = 0; i < messages; i++) {
    const wanted = i === 0 && messages > 1 ? first : i === 1 && messages > 2 ? largest : left / (messages - i)
    out[i] = Math.min(left, Math.ceil(wanted))
    left -= out[i]!
  }
  return out
}

/** Numbers of a flow summary (flow-summary.ts of the flows): its transport, and services of TCP from port 0 on. */
const SUMMARY_TCP = 3
const TCP_SERVICES = 600_000
const MULTICAST_SERVICES = 50_000
/** More would take too long to send a hundred times. */
const MOST_EXCHANGES = 200

/** "1 port", "13 ports", "41 kB", "10,000 packets/s"; rounded up to two digits, so that what it says holds. */
export function limitSizeText({ unit }: MadeAttack, size: number): string {
  const step = 10 ** Math.max(0, String(size).length - 2)
  const rounded = Math.ceil(size / step) * step
  if (unit === 'bytes' && rounded >= 1e6) return `${rounded / 1e6} MB`
  if (unit === 'bytes' && rounded >= 1000) return `${rounded / 1000} kB`
  const text = rounded.toLocaleString('en-US')
  return rounded === 1 ? `1 ${unit.replace(/s(?=\/|$)/, '')}` : `${text} ${unit}`
}
