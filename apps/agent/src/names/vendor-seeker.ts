/**
 * VendorSeeker: looks up the vendors of devices that were found, some at a time, so that a flood of new ones reads the
 * registry once and not for each. Made-up addresses (Device.randomised) have no vendor and are not looked up.
 */
import type { Device } from '../devices/device.js'
import type { FileSystem } from '../files/file-system.js'
import type { Log } from '../log.js'
import { findVendors, USUAL_REGISTRIES } from './vendor-registry.js'

export interface VendorSeeker {
  /** To be called every second or so with the devices that are known; sets `vendor` of those that it is found for. */
  tick(devices: Iterable<Device>): void
}

const MAC = /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/
/** Between two readings of the registry. */
const TICKS_BETWEEN = 10
const AT_A_TIME = 1024

/** @param registry - a file; null: the first of the usual ones that is there. */
export function createVendorSeeker(
  files: FileSystem,
  registry: string | null,
  log: Pick<Log, 'warn'>,
): VendorSeeker {
  let ticks = 0
  let isSeeking = false
  let isOver = false

  const registryHere = async (): Promise<string | null> => {
    if (registry !== null) return registry
    for (const path of USUAL_REGISTRIES) {
      if ((await files.isRegular(path).catch(() => null)) === true) return path
    }
    return null
  }
  const seek = async (sought: readonly Device[]): Promise<void> => {
    const path = await registryHere()
    if (path === null) {
      isOver = true
      return
    }
    try {
      const vendors = await findVendors(
        files,
        path,
        sought.map(({ key }) => key),
      )
      for (const device of sought) device.vendor = vendors.get(device.key) ?? null
    } catch (error) {
      isOver = true
      log.warn(`${path}: ${(error as Error).message}; devices are shown without their vendors`)
    }
  }
  return {
    tick(devices) {
      if (isOver || isSeeking || ticks++ % TICKS_BETWEEN !== 0) return
      const sought: Device[] = []
      for (const device of devices) {
        if (device.vendor !== undefined || device.randomised || !MAC.test(device.key)) continue
        sought.push(device)
        if (sought.length === AT_A_TIME) break
      }
      if (sought.length === 0) return
      isSeeking = true
      void seek(sought).finally(() => {
        isSeeking = false
      })
    },
  }
}
