/**
 * Processes runs of ordinary packets, nine of ten, in WebAssembly (assembly/packet-pass.ts): the work of flow table,
 * record cutter and packet pool in one function, on columns in one memory of fixed size. Other packets, batches
 * elsewhere, feature sets that need more of a packet, and environments without WebAssembly take the functions in
 * TypeScript, with the same results.
 */
import { type ColumnSource, createPacketBatch, PACKET_ORDER_BYTES, type PacketBatch } from '@oddflow/capture'
import { decodeBase64 } from '@oddflow/core'
import { ESTABLISHED, HALF_OPEN } from './activity-log.js'
import type { FeatureExtractor } from './feature-sets/feature-extractor.js'
import { KEY_WORDS } from './flow-record.js'
import { type FlowTable, PREPARED_PACKETS } from './flow-table.js'
import type { FlowTracker } from './flow-tracker.js'
import { columnsIn } from './numbers.js'
import { MODULE_BASE64 } from './packet-pass-module.js'
import type { CutRule, RecordCutter } from './record-cutter.js'

/**
 * PacketFields: the current packet in one small Float64Array, refilled for every packet: numbers in arguments or
 * objects may each be boxed, those in a typed array never. The tracker writes the first five and the last, the cutter
 * the rest.
 */

/** Number of the packet in its capture, from 0. */
export const NUMBER = 0
/** Microseconds of the flow clock, never before the flow's previous packet; seconds for idle-gap rules. */
export const TIME = 1
/** Length by the contract's size measure, bytes. */
export const SIZE = 2
/** Length in the IP header, bytes. */
export const IP_BYTES = 3
/** See `packetMeta`. */
export const META = 4
/** Time since the previous packet of the record, in the unit of TIME; 0 for its first. */
export const IAT = 5
/** Time of the record's first packet. */
export const START = 6

/** The capture's own time of the packet, microseconds since 1970. */
export const STAMP = 7

export type PacketFields = Float64Array

export function createPacketFields(): PacketFields {
  return new Float64Array(8)
}

/** Bit 16 of the meta word: the responder sent the packet. */
export const FROM_RESPONDER = 0x10000

/** Further data of a packet in one word: TCP flags in bits 0–7, TTL or hop limit in 8–15, direction in 16. */
export function packetMeta(tcpFlags: number, hopLimit: number, fromResponder: boolean): number {
  return tcpFlags | (hopLimit << 8) | (fromResponder ? FROM_RESPONDER : 0)
}

/** The pass's parameters, in the order of the class Pass of assembly/packet-pass.ts: columns of a batch first, */
const BATCH_WORDS = [
  ...(['timestampMicros', 'sizes', 'ipBytes', 'sourceAddress', 'destinationAddress'] as const),
  ...(['sourcePort', 'destinationPort', 'status', 'ipVersion', 'protocol', 'tcpFlags', 'vlan'] as const),
] as const
type BatchWord = (typeof BATCH_WORDS)[number]
/** other words after them, */
const WORDS = [
  ...BATCH_WORDS,
  ...(['keys', 'hashes', 'swapped', 'preparedFrom', 'preparedTo', 'warmth', 'makesFlows'] as const),
  ...(['slots', 'mask', 'key0', 'key1', 'lines', 'halfOpen', 'established', 'logs', 'state'] as const),
  ...(['poolFloats', 'poolWords', 'poolNext', 'pool', 'poolChunks', 'maximumEntries'] as const),
  ...([
    'keepsTimes',
    'keepsSizes',
    'early',
    'split',
    'clock',
    'keepsSums',
    'sums',
    'closes',
    'closedMicros',
    'closeDeadline',
    'vlanKey',
  ] as const),
] as const
type Word = (typeof WORDS)[number]
/** and doubles. */
const DOUBLES = ['idleMicros', 'durationMicros', 'activeTimeoutMicros'] as const
const WORD_BYTES = 8 * Math.ceil(WORDS.length / 2)

const PREPARED_TO = WORDS.indexOf('preparedTo')
const SLOTS = WORDS.indexOf('slots')
const MASK = WORDS.indexOf('mask')

/** The largest batch that has its columns in the pass's memory. */
const MAXIMUM_OWN_BATCH = 4096
/** Bytes of the memory besides the columns of table and records: a batch, packets held back, parameters and scratch. */
const OWN_BYTES = MAXIMUM_OWN_BATCH * bytesOf(createPacketBatch(1)) + PACKET_ORDER_BYTES + 64 * 1024
const PAGE_BYTES = 65536

interface WasmMemory {
  readonly buffer: ArrayBuffer
}

/** The used part of the global WebAssembly, which not every environment has. */
interface WasmGlobal {
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (module: object, imports: object) => { readonly exports: unknown }
  readonly Memory: new (size: { readonly initial: number; readonly maximum: number }) => WasmMemory
}

type Run = (parameters: number, from: number, to: number) => number

/** undefined: not compiled yet; null: it cannot be. */
let compiled: object | null | undefined

/** A pass whose memory has `columnBytes` for the columns of a table and its records; null if impossible. */
export function createPacketPass(columnBytes: number): PacketPass | null {
  const wasm = (globalThis as { readonly WebAssembly?: WasmGlobal }).WebAssembly
  const isLittleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1
  if (wasm === undefined || compiled === null || !isLittleEndian) return null
  try {
    compiled ??= new wasm.Module(decodeBase64(MODULE_BASE64))
  } catch {
    compiled = null // refused by a policy: not an error, only slower
    return null
  }
  try {
    const pages = Math.ceil((columnBytes + OWN_BYTES) / PAGE_BYTES)
    const memory = new wasm.Memory({ initial: pages, maximum: pages })
    const { exports } = new wasm.Instance(compiled, { env: { memory } })
    return new PacketPass(columnsIn(memory.buffer), (exports as { readonly run: Run }).run)
  } catch {
    return null // no address space for it
  }
}

export class PacketPass {
  readonly space: ColumnSource
  readonly #run: Run
  readonly #words: Int32Array
  readonly #doubles: Float64Array
  #hasBatch = false
  /** The batch whose packets `run` takes. */
  #loaded: PacketBatch | null = null

  constructor(space: ColumnSource, run: Run) {
    this.space = space
    this.#run = run
    const parameters = space.uint8(WORD_BYTES + 8 * DOUBLES.length)
    this.#words = new Int32Array(parameters.buffer, parameters.byteOffset, WORDS.length)
    this.#doubles = new Float64Array(parameters.buffer, parameters.byteOffset + WORD_BYTES, DOUBLES.length)
  }

  /** The first batch of at most MAXIMUM_OWN_BATCH packets is in the pass's memory. */
  createBatch(capacity: number): PacketBatch {
    if (this.#hasBatch || capacity > MAXIMUM_OWN_BATCH) return createPacketBatch(capacity)
    this.#hasBatch = true
    return createPacketBatch(capacity, this.space)
  }

  /** Sets the objects that the pass works for; their columns are in this pass's space at full length. */
  bind(
    tracker: FlowTracker,
    cutter: RecordCutter,
    maker: FeatureExtractor,
    rule: CutRule,
    idleTimeoutMicros: number,
    givesEarlyRows: boolean,
  ): void {
    const { table } = tracker
    const { pool } = cutter.entries
    const values: Record<Exclude<Word, BatchWord>, number> = {
      keys: at(this.space.uint32(KEY_WORDS * PREPARED_PACKETS)),
      hashes: at(this.space.uint32(PREPARED_PACKETS)),
      // Behind the bytes, a word each for the flow that it probably is.
      swapped: at(this.space.uint8(5 * PREPARED_PACKETS)),
      preparedFrom: 0,
      preparedTo: 0,
      warmth: 0,
      makesFlows: at(tracker.makesFlows),
      slots: 0,
      mask: 0,
      key0: table.key0,
      key1: table.key1,
      lines: at(table.lines.words),
      halfOpen: at(table.activity.entries[HALF_OPEN]),
      established: at(table.activity.entries[ESTABLISHED]),
      logs: at(table.activity.state),
      state: at(cutter.state),
      poolFloats: at(pool.floats),
      poolWords: at(pool.words),
      poolNext: at(pool.next),
      pool: at(pool.state),
      poolChunks: pool.capacity,
      maximumEntries: maker.maximumEntries,
      keepsTimes: maker.entryFloats,
      keepsSizes: maker.entryWords,
      early: givesEarlyRows ? 1 : 0,
      split: rule.split ? 1 : 0,
      clock: at(tracker.clockMicros),
      keepsSums: maker.keepsSums === true ? 1 : 0,
      sums: at(cutter.sums),
      closes: tracker.endsOnClose ? 1 : 0,
      closedMicros: at(tracker.closedMicros),
      closeDeadline: at(tracker.closeDeadline),
      vlanKey: table.vlanKey ? 1 : 0,
    }
    for (const [name, value] of Object.entries(values)) this.#words[WORDS.indexOf(name as Word)] = value
    this.#doubles[0] = idleTimeoutMicros
    this.#doubles[1] = rule.durationMicros
    this.#doubles[2] = rule.activeTimeoutMicros ?? Number.POSITIVE_INFINITY
  }

  /** Prepares a batch for `run`; false if its columns are not in the pass's memory. */
  load(batch: PacketBatch, sizes: Uint32Array): boolean {
    const { buffer } = this.#words
    if (batch.status.buffer !== buffer || batch.timestampMicros.buffer !== buffer) return false
    this.#words[PREPARED_TO] = 0
    if (this.#loaded === batch) return true
    this.#loaded = batch
    BATCH_WORDS.forEach((name, k) => {
      this.#words[k] = at(name === 'sizes' ? sizes : batch[name])
    })
    return true
  }

  /** Processes ordinary packets from `from` on and before `to`; returns the number of the first one not processed. */
  run({ slots }: FlowTable, from: number, to: number): number {
    this.#words[SLOTS] = slots.byteOffset
    this.#words[MASK] = (slots.length >> 1) - 1
    return this.#run(this.#words.byteOffset, from, to)
  }
}

function bytesOf(batch: PacketBatch): number {
  return Object.values(batch).reduce(
    (sum, column) => sum + (ArrayBuffer.isView(column) ? column.byteLength : 0),
    0,
  )
}

/** The address of a column of the pass's memory. */
function at(column: { readonly byteOffset: number }): number {
  return column.byteOffset
}
