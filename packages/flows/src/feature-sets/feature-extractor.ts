/**
 * FeatureExtractor: what a feature set is to the record cutter: what to keep of a packet, and what row to make of it.
 *
 * The cutter asks for every packet of a record that belongs to the row; the maker keeps entries in the pool,
 * at most `maximumEntries` a record, so that memory is bounded by the contract. When the record ends it gets
 * its entries back as two flat arrays and writes D numbers. A maker has no state that lasts between calls
 * other than constants: records are interleaved.
 */
import type { IatUnit, PacketContract, TruncationMode } from '@oddflow/core'
import type { FlowRecord } from '../flow-record.js'
import type { EntryLayout, PacketPool } from '../flow-table.js'
import type { PacketFields } from '../packet-pass.js'

/**
 * No features: for learning, where records are cut and counted before it is known what a row is.
 */

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
   * All it does with packets is to keep the time since the previous packet (if entryFloats is 1) and the size (if
   * entryWords is 1) of the record's first `maximumEntries`, and the row is settled with the last of them: then the
   * packet pass (packet-pass.ts) keeps them.
   */
  readonly keepsFirstPackets?: true
  /** It makes its row of running sums (flow-summary.ts) and has no entries; the packet pass adds to the sums. */
  readonly keepsSums?: true
  /**
   * Looks at a packet of the row. May change the record's last entry, at `last` (never that of another record;
   * -1 before the first), and says whether the packet makes a new one.
   * @param entries - entries that the record has so far.
   */
  keeps(pool: PacketPool, last: number, entries: number, packet: PacketFields): boolean
  /** Writes the new entry for which `keeps` has just said true, at `at`. */
  write(pool: PacketPool, at: number, packet: PacketFields): void
  /**
   * Whether no further packet can change the row.
   * @param last - the record's last entry.
   * @param rowPackets - packets of the row so far.
   */
  settled(pool: PacketPool, last: number, entries: number, rowPackets: number): boolean
  /**
   * Writes the row.
   * @param floats, words - the record's entries, one behind the other; or its running sums.
   * @param record - whose row it is; everything but the row is filled in.
   * @param row - D numbers, all to be written.
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
