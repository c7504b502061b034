/**
 * What a person asks for, device by device: an action and the devices that it is about.
 *
 * A person's word is on disk before it is in force, and in force before it is acknowledged: it is tried on a copy of the
 * table, the copy is kept, and only then is the table itself changed. Where it cannot be kept nothing has changed.
 */
import { ArgumentError } from '@oddflow/core'
import type { DeviceSettings } from '../settings.js'
import type { Device } from './device.js'
import { createDeviceTable, DEVICE_ACTIONS, type DeviceAction, type DeviceTable } from './device-table.js'

/** What a person asked for, device by device, and what became of it. */
export interface ActionResult {
  readonly device: string
  /** null where it was done. */
  readonly refused: string | null
}

/** Does what is asked; throws ArgumentError for what is no request of ours. */
export function act(table: DeviceTable, body: unknown): ActionResult[] {
  const { action, devices } = checkRequest(body)
  return devices.map((device) => ({ device, refused: table.act(action, device) }))
}

/** `act`, kept by `keep` first. Rejects as `keep` does, and then nothing is in force. */
export async function actKept(
  table: DeviceTable,
  settings: DeviceSettings,
  body: unknown,
  keep: (devices: Iterable<Device>) => Promise<void>,
): Promise<ActionResult[]> {
  const { action } = checkRequest(body)
  const copy = createDeviceTable({ ...settings, maximum: table.size }, [...table.all()])
  const results = act(copy, body)
  if (results.every(({ refused }) => refused !== null)) return results
  await keep(copy.all())
  // meanwhile one that learns may have gone for a new one, which is then told
  return results.map((result) =>
    result.refused === null ? { ...result, refused: table.act(action, result.device) } : result,
  )
}

function checkRequest(body: unknown): { action: DeviceAction; devices: readonly string[] } {
  const { action, devices } = (body ?? {}) as { action?: unknown; devices?: unknown }
  if (!DEVICE_ACTIONS.includes(action as DeviceAction)) {
    throw new ArgumentError(`action: expected ${DEVICE_ACTIONS.join(', ')}`)
  }
  if (!Array.isArray(devices) || !devices.every((device) => typeof device === 'string')) {
    throw new ArgumentError('devices: expected a list of addresses')
  }
  return { action: action as DeviceAction, devices }
}
