/** The devices that are known and the socket by which they are asked for, opened from the settings. */
import { fileError } from '@oddflow/program'
import { type ControlSocket, openControlSocket } from '../devices/control-socket.js'
import type { Device } from '../devices/device.js'
import {
  createDeviceWatch,
  type DeviceWatch,
  readKnownDevices,
  writeKnownDevices,
} from '../devices/device-watch.js'
import type { VendorSeeker } from '../names/vendor-seeker.js'
import type { Settings } from '../settings.js'
import type { ModelRoom } from '../training/model-room.js'
import { modelRoutes } from '../training/model-routes.js'
import type { AlertPath } from './alert-path.js'
import type { AgentEnvironment } from './environment.js'

/** Those of an earlier run. */
export async function readDevices(
  { devices, state }: Settings,
  { files, log }: AgentEnvironment,
): Promise<Device[]> {
  return devices === null || state === null ? [] : readKnownDevices(files, state, log)
}

/** null where devices are not kept. */
export async function openDevices(
  { devices, localNetworks, state }: Settings,
  { files, log }: AgentEnvironment,
  path: AlertPath,
  known: readonly Device[],
  models: ModelRoom | null,
): Promise<DeviceWatch | null> {
  if (devices === null) return null
  const common = {
    settings: devices,
    localNetworks,
    known,
    onNew: path.announce,
    ...(models === null ? {} : { isProven: models.isProven, onVerdict: models.note }),
  }
  if (state === null) return createDeviceWatch({ ...common, write: null })
  let isTroubled = false
  return createDeviceWatch({
    ...common,
    async write(all) {
      try {
        await writeKnownDevices(files, state, all)
        isTroubled = false
      } catch (error) {
        if (!isTroubled) log.warn(`${fileError('write', state, error).message}; devices are not kept`)
        isTroubled = true
      }
    },
  })
}

/** null where devices are not kept, or their vendors not asked for. */
export async function openVendors(
  { devices }: Settings,
  { files, log }: AgentEnvironment,
): Promise<VendorSeeker | null> {
  if (devices === null || devices.vendors === false) return null
  const { createVendorSeeker } = await import('../names/vendor-seeker.js')
  return createVendorSeeker(files, devices.vendors, log)
}

/** null where there is nobody to ask or nowhere to ask it. */
export async function openControl(
  { state }: Settings,
  devices: DeviceWatch | null,
  models: ModelRoom | null,
): Promise<ControlSocket | null> {
  if (state === null || devices === null) return null
  return models === null
    ? openControlSocket(state, devices.table, devices.save)
    : openControlSocket(state, devices.table, devices.save, modelRoutes(models), (key) => ({
        model: models.ownerReport(key),
      }))
}
