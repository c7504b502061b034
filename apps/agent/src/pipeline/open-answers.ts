/** What people said of incidents, opened from the settings. */
import { fileError } from '@oddflow/program'
import type { Settings } from '../config/settings.js'
import { AnswerBook, readAnswers } from '../incidents/answers.js'
import type { Incident } from '../incidents/incident.js'
import { createIncidentRows, type IncidentRows } from '../incidents/incident-rows.js'
import { readIncidentRows } from '../incidents/keep-incidents.js'
import { acceptInChild } from '../training/train-in-child.js'
import type { OpeningEnvironment } from './environment.js'

/** Where no models are made. */
const WITHIN_SECONDS = 60

/** Rejects where what an earlier run has kept cannot be read. */
export async function openAnswers(
  { devices, state, localNetworks, models }: Settings,
  { files, clock, log, stop, faults }: OpeningEnvironment,
  incidents: () => readonly Incident[],
): Promise<{ answers: AnswerBook; rows: IncidentRows }> {
  const isKept = devices !== null && state !== null
  const unreadable = (error: unknown): never => {
    throw fileError('read', state ?? '', error)
  }
  const rows = createIncidentRows(
    isKept ? await readIncidentRows(files, state, faults).catch(unreadable) : new Map(),
  )
  const kept = isKept
    ? await readAnswers(files, state, faults).catch(unreadable)
    : { known: [], models: new Map() }
  const answers = new AnswerBook({
    ...kept,
    folder: isKept ? state : null,
    files,
    localNetworks,
    rows,
    incidents,
    nowMicros: clock.wallMicros,
    accept: (job) => acceptInChild(job, models?.trainWithinSeconds ?? WITHIN_SECONDS, stop),
    log,
  })
  return { answers, rows }
}
