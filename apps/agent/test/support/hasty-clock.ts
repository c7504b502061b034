/** A clock for which waiting takes a millisecond, however long it is to be: retries come at once. */
import { type Clock, systemClock } from '../../src/input/clocks.js'

export const hastyClock: Clock = {
  ...systemClock,
  sleep: (_, signal) => systemClock.sleep(1, signal),
}
