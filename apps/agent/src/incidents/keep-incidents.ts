/**
 * Incidents in the state folder: `incidents.json` and its copy, and rows of their flows (incident-rows.ts). Open incidents survive a restart and keep their ids.
 *
 * A report is kept within a second; evidence that was not reported, within a minute.
 */
import { join } from 'node:path'
import { fileError } from '@oddflow/program'
import type { FileSystem } from '../files/file-system.js'
import {
  createKeeper,
  type Keeper,
  readStateOrSetAside,
  readTwice,
  valueOrWarn,
  writeState,
  writeStateTwice,
} from '../files/state-file.js'
import type { Log } from '../log.js'
import { decodeIncidents, encodeIncidents, type Incident } from './incident.js'
import { decodeIncidentRows, type IncidentRows, type KeptRows, rowsPathIn } from './incident-rows.js'
import type { IncidentBook } from './incidents.js'

const TICKS_BETWEEN = 60

export function createIncidentKeeper(
  book: Pick<IncidentBook, 'all' | 'changes' | 'reports'>,
  rows: Pick<IncidentRows, 'keepOnly' | 'encode'>,
  files: FileSystem,
  folder: string,
  log: Pick<Log, 'info' | 'warn'>,
): Keeper {
  let savedReports = 0
  const keeper = createKeeper({
    what: 'incidents are',
    ticksBetween: TICKS_BETWEEN,
    changes: () => book.changes,
    savedChanges: 0,
    log,
    async write() {
      const { reports } = book
      try {
        await files.makeFolder(folder)
        const all = book.all()
        rows.keepOnly(all)
        await writeState(files, rowsPathIn(folder), rows.encode())
        await writeStateTwice(files, pathIn(folder), encodeIncidents(all))
      } catch (error) {
        throw fileError('write', pathIn(folder), error)
      }
      savedReports = reports
    },
  })
  return {
    tick: () => keeper.tick(book.reports !== savedReports),
    save: keeper.save,
    get isTroubled() {
      return keeper.isTroubled
    },
  }
}

/** Incidents of an earlier run; a damaged file is moved to `.damaged` and reported. Rejects as `readTwice` does. */
export async function readIncidents(
  files: FileSystem,
  folder: string,
  log: Pick<Log, 'warn'>,
): Promise<Incident[]> {
  const path = pathIn(folder)
  const found = await readTwice(files, path, decodeIncidents)
  return valueOrWarn(found, path, 'earlier incidents are lost', log) ?? []
}

/** Of the incidents of an earlier run; without them an answer that is about flows is refused. */
export async function readIncidentRows(
  files: FileSystem,
  folder: string,
  log: Pick<Log, 'warn'>,
): Promise<ReadonlyMap<string, KeptRows>> {
  return (await readStateOrSetAside(files, rowsPathIn(folder), decodeIncidentRows, log)) ?? new Map()
}

export function pathIn(folder: string): string {
  return join(folder, 'incidents.json')
}
