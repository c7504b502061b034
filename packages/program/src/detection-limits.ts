/**
 * Detection limits: the smallest synthetic attack of each kind (made-attacks.ts) that a model flags in 9 of 10 tries,
 * through the real decoder, flow table and judge. The search divides the largest size by ten until a size is missed,
 * then bisects the logarithm; an attack missed at its largest size is *invisible*.
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

/** The smallest size at which a synthetic attack is flagged. */
export interface DetectionLimit {
  readonly attack: MadeAttack
  /** The smallest size flagged in REQUIRED_TRIES of LIMIT_TRIES tries; null if the largest is not. */
  readonly smallest: number | null
  /** For an upload: the connection is novel even without an upload, so the limit does not measure uploads. */
  readonly isConnectionNovel: boolean
}

/** What a model notices of synthetic attacks. */
export interface DetectionLimits {
  /** In the order of MADE_ATTACKS; empty for a model of bare rows, which has no packets. */
  readonly limits: readonly DetectionLimit[]
  /** Where the attacks took place, with round trips and the open connection from the model; null for bare rows. */
  readonly site: MadeSite | null
  /** The number of normal rows stored in the model, and how many of them it flags; null without such rows. */
  readonly remembered: { readonly rows: number; readonly flagged: number } | null
  /**
   * For a model of bare rows: whether it flags a row far beyond all others; null for other models, whose limits show
   * it.
   */
  readonly flagsFarRows: boolean | null
}

/** Tries of each size. */
export const LIMIT_TRIES = 10
/** Tries that must be flagged for a size to count as found. */
export const REQUIRED_TRIES = 9

/** Bisection ends where a step is less than a quarter. */
const SMALLEST_RATIO = 1.25
/** Larger than any feature should be. */
const FAR = 1e9
/** 2026-01-01T00:00:00Z */
const START_MICROS = 1_767_225_600_000_000

/** Finds the smallest size of each synthetic attack that the model flags. */
export function findDetectionLimits(saved: SavedModel): DetectionLimits {
  const rows = rememberedRows(saved.detector)
  const remembered = rows === null ? null : { rows: rows.rows, flagged: countFlagged(saved, rows) }
  if (saved.contract.featureSet === 'rows') {
    const far = createMatrix(2, saved.contract.dimension)
    far.data.fill(FAR, 0, far.cols).fill(-FAR, far.cols)
    return { limits: [], site: null, remembered, flagsFarRows: countFlagged(saved, far) > 0 }
  }
  const judge = createFrameJudge(saved)
  const rng = createRng(1).fork('detection limits')
  const tryOnce = (attack: MadeAttack, size: number, at: MadeSite, turn: number): boolean =>
    judge((maker) => attack.frames(size, at, rng.fork(`${attack.name} ${turn}`), maker))
  const roundTripMicros = usualRoundTrips(saved.contract, rows) ?? DEFAULT_SITE.roundTripMicros
  const near = { ...DEFAULT_SITE, roundTripMicros }
  const usual = { ...near, openConnection: usualConnection(saved.contract, rows, near, tryOnce) }
  const isFlagged = (attack: MadeAttack, size: number): boolean => {
    let flagged = 0
    for (let turn = 0; flagged < REQUIRED_TRIES; turn++) {
      if (tryOnce(attack, size, usual, turn)) flagged++
      else if (turn - flagged >= LIMIT_TRIES - REQUIRED_TRIES) return false
    }
    return true
  }
  return {
    limits: MADE_ATTACKS.map((attack) => ({
      attack,
      smallest: smallestFlagged(attack, isFlagged),
      isConnectionNovel: attack.name === 'upload' && isFlagged(attack, 0),
    })),
    site: usual,
    remembered,
    flagsFarRows: null,
  }
}

/** Divides by ten down to the first missed size, then bisects the logarithm. */
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

/** Whether the model finds any flow novel in the packets of a maker. */
type FrameJudge = (frames: (maker: PacketMaker) => Iterable<MadeFrame>) => boolean

const BATCH_FRAMES = 256

/** The way of a capture: frames, packets, flows, rows, verdicts. */
function createFrameJudge(saved: SavedModel): FrameJudge {
  const { contract, row, judge } = createFlowJudge(saved)
  let novel = false
  const onRecord = (record: FlowRecord): void => {
    if (!novel) novel = judge(record).novel
  }
  const flows = createFlows(contract, row, onRecord)
  const { decapsulation, joinFragments } = packetView(contract)
  const batchesOf = createMadeBatches(BATCH_FRAMES, DEFAULT_SITE.routerMac !== null)
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

type Flows = Pick<ReturnType<typeof createFlowExtractor>, 'createBatch' | 'add' | 'endCapture'>

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
 * Round trips, from the first tenth to the last of the first interarrival times stored in the model. null if it stores
 * none.
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
 * The longest connection of the device, as stored in the model, that the model finds normal without an upload;
 * otherwise the site's.
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
    // in an exchange the device sends a request and acknowledges the answer, after two packets that open it
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

/** Several messages with a given total: the first one, the largest one, and equal others. */
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

/** Numbers of a flow summary (flow-summary.ts of the flows): its transport, and TCP services from port 0 on. */
const SUMMARY_TCP = 3
const TCP_SERVICES = 600_000
const MULTICAST_SERVICES = 50_000
/** More would take too long to send a hundred times. */
const MOST_EXCHANGES = 200

/** "1 port", "13 ports", "41 kB", "10,000 packets/s"; rounded up to two digits, so that the limit holds. */
export function limitSizeText({ unit }: MadeAttack, size: number): string {
  const step = 10 ** Math.max(0, String(size).length - 2)
  const rounded = Math.ceil(size / step) * step
  if (unit === 'bytes' && rounded >= 1e6) return `${rounded / 1e6} MB`
  if (unit === 'bytes' && rounded >= 1000) return `${rounded / 1000} kB`
  const text = rounded.toLocaleString('en-US')
  return rounded === 1 ? `1 ${unit.replace(/s(?=\/|$)/, '')}` : `${text} ${unit}`
}

/** "from 13 ports"; "none, not even 1,000 ports". */
export function limitText({ attack, smallest, isConnectionNovel }: DetectionLimit): string {
  if (smallest === null) return `none, not even ${limitSizeText(attack, attack.highest)}`
  if (isConnectionNovel) return 'unknown: the synthetic connection is novel even without an upload'
  return smallest === attack.lowest
    ? `found at the smallest size tried (${limitSizeText(attack, smallest)})`
    : `from ${limitSizeText(attack, smallest)}`
}
