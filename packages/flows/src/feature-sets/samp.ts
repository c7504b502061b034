/**
 * SAMP-SIZE and SAMP-NUM (the paper's appendix): bytes, or packets, in windows of equal length.
 *
 * Windows begin with the record's first packet. A packet exactly at the end of a window is still in it; a later one begins
 * another, after as many empty windows as whole lengths fit between (the authors' rule, in their order of arithmetic). In
 * idle-gap rules times are the authors' absolute floats of seconds, otherwise microseconds since the record's start. A row
 * has at most 500 windows; later packets are not kept.
 * Entry, one for each window with packets: [start of the window, bytes or packets], [number of the window].
 */
import { DataError, MAXIMUM_SAMP_WINDOWS, type PacketContract, type SampContract } from '@oddflow/core'
import { floorDivide, linearQuantile } from '../numbers.js'
import { type PacketFields, SIZE, START, TIME } from '../packet-pass.js'
import type { FeatureExtractor, LearnedFlows } from './feature-extractor.js'

export function createSampRows(contract: PacketContract): FeatureExtractor {
  const { dimension } = contract
  const windows = Math.min(dimension, MAXIMUM_SAMP_WINDOWS)
  const samp = contract as SampContract
  const counts = samp.featureSet === 'samp-num'
  const seconds = samp.samplingIntervalSeconds
  const interval = seconds ?? samp.samplingIntervalMicros
  const timeOf =
    seconds === undefined
      ? (packet: PacketFields) => packet[TIME] - packet[START]
      : (packet: PacketFields) => packet[TIME]
  // Of the window that `keeps` has just opened, for the call of `write` that follows it.
  const opened = new Float64Array(1)
  let openedWindow = 0
  return {
    dimension,
    entryFloats: 2,
    entryWords: 1,
    // One more, for the first window beyond the row: it tells that the row is complete.
    maximumEntries: windows + 1,
    keeps: (pool, last, entries, packet) => {
      const time = timeOf(packet)
      if (entries === 0) {
        opened[0] = time
        openedWindow = 0
        return true
      }
      const window = pool.words[last]
      if (window >= windows) return false
      const start = pool.floats[2 * last]
      if (time - start <= interval) {
        pool.floats[2 * last + 1] += counts ? 1 : packet[SIZE]
        return false
      }
      const next = start + interval
      const empty = floorDivide(time - next, interval)
      const skipped = empty > 0 ? Math.min(empty, windows) : 0
      opened[0] = skipped > 0 ? next + skipped * interval : next
      openedWindow = window + 1 + skipped
      return true
    },
    write: (pool, at, packet) => {
      pool.floats[2 * at] = opened[0]
      pool.floats[2 * at + 1] = counts ? 1 : packet[SIZE]
      pool.words[at] = openedWindow
    },
    settled: (pool, last) => pool.words[last] >= windows,
    fill: (floats, numbers, entries, _record, row) => {
      row.fill(0)
      for (let j = 0; j < entries; j++) {
        if (numbers[j] < windows) row[numbers[j]] = floats[2 * j + 1]
      }
    },
  }
}

/** The length of a window: a quantile of flow durations. Throws DataError when that is 0. */
export function learnSampling({ samplingDurations, samplingQuantile, mode }: LearnedFlows): object {
  const interval = linearQuantile(samplingDurations, samplingQuantile)
  if (!(interval > 0)) {
    throw new DataError(
      `samplingInterval: the ${samplingQuantile}-quantile of flow durations is 0, and windows need a length: ` +
        'take a larger sampling quantile',
      'samplingInterval',
    )
  }
  return mode === 'idle-gap'
    ? { samplingIntervalMicros: interval * 1_000_000, samplingIntervalSeconds: interval }
    : { samplingIntervalMicros: interval }
}
