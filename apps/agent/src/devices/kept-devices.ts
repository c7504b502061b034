/**
 * The devices in the state folder: `devices.json`, and the same again as `devices.json.copy`.
 *
 * Losing them would disarm the agent: every device would learn again, and its alerts would be held. So a file that is
 * damaged, gone or of a newer version is replaced by its copy. Where neither is whole the table is lost, and what was watched is
 * not known: the agent then watches what it finds within the first hour, and reports new devices from the start.
 */
import { join } from 'node:path'
import { FormatError } from '@oddflow/core'
import type { FileSystem } from '../files/file-system.js'
import { lookAtTwice, readTwice, writeStateTwice } from '../files/state-file.js'
import type { Log } from '../log.js'
import { type Device, decodeDevices, encodeDevices } from './device.js'

export interface KnownDevices {
  readonly devices: readonly Device[]
  /** `file`: as they were kept, none before the first start. `copy`: of the copy, which is to be written again. `lost`: they are not known. */
  readonly from: 'file' | 'copy' | 'lost'
}

/** Those that an earlier run has kept. What is damaged is moved to `.damaged` and reported. */
export async function readKnownDevices(
  files: FileSystem,
  folder: string,
  log: Pick<Log, 'warn'>,
): Promise<KnownDevices> {
  const path = pathIn(folder)
  const found = await readTwice(files, path, decodeDevices)
  if (found.is === 'copy') {
    log.warn(
      `${path}: ${found.reason}; its copy of ${count(found.value.length)} is used. Check what was approved, paused or forgotten last ("oddflow-agent devices list")`,
    )
  } else if (found.is === 'lost') {
    log.warn(
      `${path}: ${found.reason}. Which devices were watched is not known: those found from now on are watched, and reported as new. Bring back a whole devices.json, or check "oddflow-agent devices list"`,
    )
  }
  if (found.is === 'lost') return { devices: [], from: 'lost' }
  if (found.is === 'none') return { devices: [], from: 'file' }
  return { devices: found.value, from: found.is === 'copy' ? 'copy' : 'file' }
}

/** `readKnownDevices` of who only looks: nothing is moved. Rejects with FormatError where they are lost. */
export async function lookAtKnownDevices(
  files: FileSystem,
  folder: string,
  log: Pick<Log, 'warn'>,
): Promise<readonly Device[]> {
  const path = pathIn(folder)
  const found = await lookAtTwice(files, path, decodeDevices)
  if (found.is === 'none') return []
  if (found.is === 'lost') {
    throw new FormatError(
      'devices',
      `${path}: ${found.reason}; bring back a whole file, or start the agent, which watches the devices that it finds`,
    )
  }
  if (found.is === 'copy') log.warn(`${path}: ${found.reason}; this is its copy`)
  return found.value
}

/** Rejects with the error of the file system. */
export async function writeKnownDevices(
  files: FileSystem,
  folder: string,
  devices: Iterable<Device>,
): Promise<void> {
  await files.makeFolder(folder)
  await writeStateTwice(files, pathIn(folder), encodeDevices(devices))
}

function count(devices: number): string {
  return devices === 1 ? 'one device' : `${devices} devices`
}

function pathIn(folder: string): string {
  return join(folder, 'devices.json')
}
