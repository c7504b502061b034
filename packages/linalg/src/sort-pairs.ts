/**
 * Sorts the smallest of (value, index) pairs held in two arrays, by value and then by index.
 *
 * Quicksort by median of three, narrowed to the part of the array that holds the wanted prefix, insertion
 * sort for short runs. An explicit stack of bounded depth (the larger side waits), so hostile orders cost
 * time and never the call stack. Indices differ, so the order is total and the result unique.
 */
import { isBefore, swap } from './select-pairs.js'

/** After the call the first `wanted` of `count` pairs are the smallest ones in ascending order. */
export function sortPairs(values: Float64Array, indices: Uint32Array, count: number, wanted: number): void {
  const stack = STACK
  let depth = 0
  let low = 0
  let high = count - 1
  for (;;) {
    while (high - low > 12) {
      const middle = (low + high) >>> 1
      if (isBefore(values, indices, middle, low)) swap(values, indices, middle, low)
      if (isBefore(values, indices, high, low)) swap(values, indices, high, low)
      if (isBefore(values, indices, high, middle)) swap(values, indices, high, middle)
      const pivot = values[middle]!
      const pivotIndex = indices[middle]!
      let i = low
      let j = high
      while (i <= j) {
        while (values[i]! < pivot || (values[i]! === pivot && indices[i]! < pivotIndex)) i++
        while (values[j]! > pivot || (values[j]! === pivot && indices[j]! > pivotIndex)) j--
        if (i <= j) {
          swap(values, indices, i, j)
          i++
          j--
        }
      }
      // [low … j] and [i … high]; what starts at or after `wanted` need not be sorted
      if (i >= wanted) {
        high = j
      } else if (j - low < high - i) {
        stack[depth++] = i
        stack[depth++] = high
        high = j
      } else {
        stack[depth++] = low
        stack[depth++] = j
        low = i
      }
    }
    insertionSort(values, indices, low, high)
    if (depth === 0) return
    high = stack[--depth]!
    low = stack[--depth]!
  }
}

/** Two numbers for each halving of at most 2^32 pairs. */
const STACK = new Uint32Array(128)

function insertionSort(values: Float64Array, indices: Uint32Array, low: number, high: number): void {
  for (let i = low + 1; i <= high; i++) {
    const v = values[i]!
    const index = indices[i]!
    let j = i - 1
    while (j >= low && (values[j]! > v || (values[j]! === v && indices[j]! > index))) {
      values[j + 1] = values[j]!
      indices[j + 1] = indices[j]!
      j--
    }
    values[j + 1] = v
    indices[j + 1] = index
  }
}
