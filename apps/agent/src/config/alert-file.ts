/**
 * The alert file must be a separate file: alerts would damage the model, the capture or a file of the state folder. Files are compared by
 * device and inode; missing ones by those of the nearest existing folder above, and the names below.
 */
import { realpathSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { signaturePath, UsageError } from '@oddflow/program'
import { FLEET_MODELS_FOLDER, FLEET_STATE_FILE } from '../fleet/fleet-model-store.js'
import { filesOf as filesOfOutput } from '../outputs/output.js'
import type { Settings } from './settings.js'
import type { ConfigContext } from './settings-from.js'

const STATE_FILES = [
  'devices.json',
  'devices.json.copy',
  'calibration.json',
  'suppressions.json',
  'recent-alerts.json',
  'dashboard-token.json',
  'incidents.json',
  'incident-rows.json',
  'answers.json',
  'peer-names.json',
  FLEET_STATE_FILE,
  `${FLEET_STATE_FILE}.copy`,
  'control.sock',
]
const STATE_FOLDERS = ['spool', 'models', FLEET_MODELS_FOLDER]

/** Throws UsageError with the place of `eve`. */
export function checkAlertFile({ options, refuse }: ConfigContext, settings: Settings): void {
  const spoilt = spoiltBy(settings, options.config ?? null)
  if (spoilt === null) return
  const message = `${settings.eve}: is ${spoilt}; give a separate file for alerts`
  if (options.eve !== undefined) throw new UsageError(`--eve ${message}`)
  refuse(['eve'], message)
}

/** What alerts would damage, or null. */
function spoiltBy(settings: Settings, config: string | null): string | null {
  const { eve } = settings
  // a terminal or /dev/null may also be the input
  if (isSpecial(eve)) return null
  const place = placeOf(eve)
  for (const [what, path] of filesOf(settings, config)) if (placeOf(path) === place) return what
  const above = new Set<string>()
  for (let at = dirname(ofNearest(eve, realpathSync)); ; at = dirname(at)) {
    above.add(placeOf(at))
    if (dirname(at) === at) break
  }
  for (const [what, path] of foldersOf(settings)) if (above.has(placeOf(path))) return `in ${what}`
  return null
}

function filesOf(settings: Settings, config: string | null): [string, string][] {
  const { input, model, modelKey, models, budget, devices, state, outputs } = settings
  const files: [string, string | null][] = [
    ['the configuration', config],
    ['the capture that is read', input.kind === 'recorded' && input.path !== '-' ? input.path : null],
    ['the model', model],
    ['the signature of the model', model === null ? null : signaturePath(model)],
    ['the key of models', modelKey],
    ['the calibration', budget?.calibration ?? null],
    ['the registry of vendors', devices?.vendors || null],
  ]
  for (const [owner, file] of Object.entries(models?.files ?? {})) files.push([`the model of ${owner}`, file])
  for (const output of outputs) {
    for (const { what, path } of filesOfOutput(output)) files.push([`the ${what} of ${output.name}`, path])
  }
  for (const name of state === null ? [] : STATE_FILES) {
    files.push([`${name} of the state folder`, join(state ?? '', name)])
  }
  return files.filter((file): file is [string, string] => file[1] !== null)
}

function foldersOf({ state, evidence }: Settings): [string, string][] {
  const folders: [string, string][] = []
  for (const name of state === null ? [] : STATE_FOLDERS) {
    folders.push([`${name} of the state folder`, join(state ?? '', name)])
  }
  if (evidence !== null) folders.push(['the folder of evidence', evidence.directory])
  return folders
}

function isSpecial(path: string): boolean {
  try {
    const found = statSync(path)
    return !found.isFile() && !found.isDirectory()
  } catch {
    return false
  }
}

/** Device and inode of a file, or of the nearest existing folder above and the names below it. */
function placeOf(path: string): string {
  return ofNearest(path, (at) => {
    const { dev, ino } = statSync(at, { bigint: true })
    return `${dev}:${ino}`
  })
}

/** `look` of a path, or of the nearest one above it for which `look` does not throw, and the names below. */
function ofNearest(path: string, look: (at: string) => string): string {
  const below: string[] = []
  for (let at = resolve(path); ; at = dirname(at)) {
    try {
      return join(look(at), ...below)
    } catch {
      if (dirname(at) === at) return resolve(path)
      below.unshift(basename(at))
    }
  }
}
