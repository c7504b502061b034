/** The devices that are known and the socket by which they are asked for, opened from the settings. */
import { fileError } from '@oddflow/program'
import { type ControlSocket, openControlSocket } from '../devices/control-socket.js'
import {
  createDeviceWatch,
  type DeviceWatch,
  readKnownDevices,
  writeKnownDevices,
} from '../devices/device-watch.js'
import type { Settings } from '../settings.js'
import type { AlertPath } from './alert-path.js'
import type { AgentEnvironment } from './environment.js'

/** null where devices are not kept. */
export async function openDevices(
  { devices, localNetworks, state }: Settings,
  { files, log }: AgentEnvironment,
  path: AlertPath,
): Promise<DeviceWatch | null> {
  if (devices === null) return null
  const common = { settings: devices, localNetworks, onNew: path.announce }
  if (state === null) return createDeviceWatch({ ...common, known: [], write: null })
  let isTroubled = false
  return createDeviceWatch({
    ...common,
    known: await readKnownDevices(files, state),
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

/** null where there is nobody to ask or nowhere to ask it. */
export async function openControl(
  { state }: Settings,
  devices: DeviceWatch | null,
): Promise<ControlSocket | null> {
  if (state === null || devices === null) return null
  return openControlSocket(state, devices.table, devices.save)
}
