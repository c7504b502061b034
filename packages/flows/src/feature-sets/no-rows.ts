/**
 * No features: for learning, where records are cut and counted before it is known what a row is.
 */
import type { RowMaker } from './row-maker.js'

export function createNoRows(): RowMaker {
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
