import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/**
 * Bytes that this thread holds. Resident memory would count other threads, and what waits for the garbage collector, which
 * depends on how busy the machine is.
 */
export function liveBytes(): number {
  collect()
  // the first collection may still be sweeping buffers
  collect()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
