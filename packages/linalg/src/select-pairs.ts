/**
 * Selection among (value, index) pairs held in two arrays: who would stand at this rank after sorting?
 *
 * Hoare's quickselect by median of three; the order is by value and then by index, hence total, and the pair found is
 * the same whatever the order that the pairs came in. No recursion.
 */

/**
 * After the call the pair at `rank` (0 … count − 1) is the one that sorting would put there, with none larger before
 * it and none smaller after it.
 */
export function selectPairs(values: Float64Array, indices: Uint32Array, count: number, rank: number): void {
  let low = 0
  let high = count - 1
  while (low < high) {
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
      if (i <= j) swap(values, indices, i++, j--)
    }
    if (rank <= j) high = j
    else if (rank >= i) low = i
    else return
  }
}

/** Whether pair a comes before pair b. */
export function isBefore(values: Float64Array, indices: Uint32Array, a: number, b: number): boolean {
  return values[a]! < values[b]! || (values[a]! === values[b]! && indices[a]! < indices[b]!)
}

export function swap(values: Float64Array, indices: Uint32Array, a: number, b: number): void {
  const v = values[a]!
  values[a] = values[b]!
  values[b] = v
  const i = indices[a]!
  indices[a] = indices[b]!
  indices[b] = i
}
