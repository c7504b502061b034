/** The devices that are known, opened from the settings, and what is told of them. */
import { fileError } from '@oddflow/program'
import type { ControlAnswers, FurtherRoutes } from '../devices/control-socket.js'
import { createDeviceWatch, type DeviceWatch } from '../devices/device-watch.js'
import { type KnownDevices, readKnownDevices, writeKnownDevices } from '../devices/kept-devices.js'
import type { VendorSeeker } from '../names/vendor-seeker.js'
import type { Settings } from '../settings.js'
import type { ModelRoom } from '../training/model-room.js'
import { modelRoutes } from '../training/model-routes.js'
import type { AlertPath } from './alert-path.js'
import type { AgentEnvironment, OpeningEnvironment } from './environment.js'

/** Those of an earlier run. */
export async function readDevices(
  { devices, state }: Settings,
  { files, faults }: OpeningEnvironment,
): Promise<KnownDevices> {
  return devices === null || state === null
    ? { devices: [], from: 'file' }
    : readKnownDevices(files, state, faults)
}

/** null where devices are not kept. */
export async function openDevices(
  { devices, localNetworks, state }: Settings,
  { files, log }: AgentEnvironment,
  path: AlertPath,
  known: KnownDevices,
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
  return createDeviceWatch({
    ...common,
    async write(all) {
      try {
        await writeKnownDevices(files, state, all)
      } catch (error) {
        throw fileError('write', state, error)
      }
    },
    onTrouble(trouble) {
      if (trouble === null) log.info(`${state}: devices are kept again`)
      else log.warn(`${(trouble as Error).message}; devices are not kept, trying again`)
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

/** What a running agent tells by its control socket, and does. */
export function controlAnswers(
  devices: DeviceWatch | null,
  models: ModelRoom | null,
  /** To the dashboard; null where there is none. */
  link: string | null,
): ControlAnswers {
  const further: FurtherRoutes = link === null ? {} : { '/dashboard': async () => ({ link }) }
  if (devices === null) return { devices, further }
  const { table, word } = devices
  if (models === null) return { devices: { table, word }, further }
  const describe = (key: string): object => ({
    model: models.ownerReport(key),
    isJudged: models.isJudged(key),
  })
  return { devices: { table, word, describe }, further: { ...further, ...modelRoutes(models) } }
}
