/** Which end of a flow is the device, and how devices are learnt before they are watched. */
import { type Network, PRIVATE_NETWORKS, parseNetwork } from '@oddflow/program'
import { DEFAULT_DEVICES, type DeviceSettings } from '../settings.js'
import type { Given } from './given.js'

/** Throws UsageError. */
export function devicesFrom(
  { options, config, inFolder, refuse }: Given,
  /** Models are made on the gateway, of devices. */
  isTraining: boolean,
): DeviceSettings | null {
  const { devices } = config
  if (devices === undefined) return isTraining ? DEFAULT_DEVICES : null
  const settings: DeviceSettings = {
    learnHours: devices.learnHours ?? DEFAULT_DEVICES.learnHours,
    judgeHours: devices.judgeHours ?? DEFAULT_DEVICES.judgeHours,
    learnFlows: devices.learnFlows ?? DEFAULT_DEVICES.learnFlows,
    stableShare: devices.stableShare ?? DEFAULT_DEVICES.stableShare,
    approve: devices.approve ?? DEFAULT_DEVICES.approve,
    maximum: devices.maximum ?? DEFAULT_DEVICES.maximum,
    floodPerMinute: devices.floodPerMinute ?? DEFAULT_DEVICES.floodPerMinute,
    inventoryMinutes: devices.inventoryMinutes ?? DEFAULT_DEVICES.inventoryMinutes,
    vendors: devices.vendors === false ? false : (inFolder(devices.vendors) ?? DEFAULT_DEVICES.vendors),
  }
  if ((options.state ?? config.state) === undefined && settings.approve === 'manual') {
    refuse(
      ['devices'],
      'devices: nobody could approve one without a state folder, and none would be watched; give state, or approve: auto',
    )
  }
  return settings
}

/** Throws UsageError. */
export function networksFrom({ config, located }: Given): Network[] {
  return (config.localNetworks ?? PRIVATE_NETWORKS).map((text, i) =>
    located(['localNetworks', i], () => parseNetwork(text)),
  )
}
