/** What the command line and the configuration file ask for, checked. */
import { UsageError } from '@oddflow/program'
import { createGiven, type RunOptions } from '../config/given.js'
import type { ReadConfig } from '../config/read-config.js'
import { settingsFrom } from '../config/settings-from.js'
import { standardErrorLog } from '../log.js'
import type { Settings } from '../settings.js'

/** Complaints about a file that are told; one that is no configuration at all would have thousands. */
const MAXIMUM_COMPLAINTS = 8

/** Throws UsageError with what is wrong with the file, a line each, the first few. */
export async function readSettings(options: RunOptions): Promise<Settings> {
  const { config } = options
  return settingsFrom(options, config === undefined ? null : await readWhole(config))
}

/** The state folder that a configuration names; null where it names none. Throws as `readSettings`. */
export async function stateIn(config: string): Promise<string | null> {
  const given = createGiven({ config, fold: true }, await readWhole(config))
  return given.inFolder(given.config.state) ?? null
}

async function readWhole(name: string): Promise<ReadConfig> {
  // the YAML parser and the schema are loaded by who has a file
  const { readConfig } = await import('../config/read-config.js')
  const file = readConfig(name)
  const complaints = file.complaints.map(
    ({ line, column, message }) => `${name}:${line}:${column}: ${message}`,
  )
  if (complaints.length > 0) {
    const told = complaints.slice(0, MAXIMUM_COMPLAINTS)
    const more = complaints.length - told.length
    if (more > 0) told.push(`${name}: and ${more} more like these`)
    for (const complaint of told.slice(0, -1)) standardErrorLog.error(complaint)
    throw new UsageError(told.at(-1))
  }
  return file
}
