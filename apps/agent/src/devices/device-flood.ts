/**
 * DeviceFlood: a device that is new is worth an alert of its own, thousands within a minute are worth one.
 *
 * A minute of the packets' clock with more new devices than `perMinute` is a flood. The alert that there is one takes the
 * place of those of further devices, until a minute passes with no more than that; the next flood has an alert of its own.
 */
export interface DeviceFlood {
  /** What a new device is worth: an alert of its own, the alert of a flood, or none. */
  take(atMicros: number): 'device' | 'flood' | 'none'
  /** New devices that had no alert of their own. */
  readonly untold: number
}

const MINUTE_MICROS = 60_000_000

export function createDeviceFlood(perMinute: number): DeviceFlood {
  let beganMicros = Number.NEGATIVE_INFINITY
  let count = 0
  let isFlood = false
  let untold = 0
  return {
    take(atMicros) {
      // a clock that was set back begins a minute as well
      if (atMicros >= beganMicros + MINUTE_MICROS || atMicros < beganMicros - MINUTE_MICROS) {
        if (count <= perMinute || atMicros >= beganMicros + 2 * MINUTE_MICROS) isFlood = false
        beganMicros = atMicros
        count = 0
      }
      count++
      if (!isFlood && count <= perMinute) return 'device'
      untold++
      if (isFlood) return 'none'
      isFlood = true
      return 'flood'
    },
    get untold() {
      return untold
    },
  }
}
