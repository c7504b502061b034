/**
 * FeatureExtractor: what a feature set keeps of a packet, and the row that it makes.
 *
 * For every packet of the row it may keep an entry in the pool, at most `maximumEntries` a record, so the contract bounds
 * memory. When the record ends it gets its entries as two flat arrays and writes D numbers. Records are interleaved, so it
 * has no state between calls.
 */
import type { IatUnit, PacketContract, TruncationMode } from '@oddflow/core'
import type { FlowRecord } from '../flow-record.js'
import type { EntryLayout, PacketPool } from '../flow-table.js'
import type { PacketFields } from '../packet-pass.js'

/** No features: for learning, which cuts and counts records before the row is known. */
export function createNoRows(): FeatureExtractor {
  return {
    dimension: 0,
    entryFloats: 0,
    entryWords: 0,
    maximumEntries: 1,
    keeps: () => false,
    write: () => {},
    settled: () => false,
    fill: () => {},
  }
}

export interface FeatureExtractor extends EntryLayout {
  /** D. */
  readonly dimension: number
  /** The most entries that a record has in the pool; 0 for none. */
  readonly maximumEntries: number
  /**
   * It only keeps the time since the previous packet (if entryFloats is 1) and the size (if entryWords is 1) of the
   * record's first `maximumEntries`, and the last of them settles the row: the packet pass (packet-pass.ts) can do that.
   */
  readonly keepsFirstPackets?: true
  /** Its row is made of running sums (flow-summary.ts), without entries; the packet pass adds to the sums. */
  readonly keepsSums?: true
  /**
   * Takes a packet of the row; returns whether it makes a new entry. May change the record's last entry, at `last` (-1 for
   * none). @param entries - entries of the record so far.
   */
  keeps(pool: PacketPool, last: number, entries: number, packet: PacketFields): boolean
  /** Writes the new entry, for which `keeps` has just returned true, at `at`. */
  write(pool: PacketPool, at: number, packet: PacketFields): void
  /**
   * Whether no further packet can change the row.
   * @param last - the record's last entry.
   * @param rowPackets - packets of the row so far.
   */
  settled(pool: PacketPool, last: number, entries: number, rowPackets: number): boolean
  /**
   * Writes the row.
   * @param floats, words - the record's entries in order, or its running sums.
   * @param record - complete except for the row. @param row - D numbers, all to be written.
   */
  fill(floats: Float64Array, words: Uint32Array, entries: number, record: FlowRecord, row: Float64Array): void
}

/** What training learns of flows that a feature set may need for its own fields of the contract. */
export interface LearnedFlows {
  readonly iatUnit: IatUnit
  readonly packetsPerFlow: number
  readonly packetsKept: number | undefined
  readonly samplingQuantile: number
  /** Microseconds, or in idle-gap seconds. */
  readonly samplingDurations: readonly number[]
  readonly mode: TruncationMode
}

/** A feature set whose rows are made of single packets. */
export interface PacketFeatures {
  /** `timeUnit` is the unit of TIME in the unit of the row's times. */
  readonly create: (contract: PacketContract, timeUnit: number) => FeatureExtractor
  /** Its own fields of the contract. */
  readonly learn?: (learned: LearnedFlows) => object
  /** The most packets of a row, unless `headerPackets` says otherwise. */
  readonly defaultPackets?: number
}
