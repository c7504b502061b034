/**
 * `oddflow-agent incidents`: what the state folder keeps of incidents. A running agent writes each report there within a second, so
 * nothing is asked of it.
 */
import { FormatError } from '@oddflow/core'
import { jsonLine, printable, UsageError } from '@oddflow/program'
import { eveTime } from '../alerts/eve.js'
import { nodeFileSystem } from '../files/file-system.js'
import { lookAtTwice } from '../files/state-file.js'
import { decodeIncidents, type Incident } from '../incidents/incident.js'
import { pathIn } from '../incidents/keep-incidents.js'
import { printTable, type StateOptions, stateOf } from './state-of.js'

interface IncidentOptions extends StateOptions {
  readonly format: 'text' | 'json'
}

/** Those that were reported, the latest last. */
export async function listIncidents(options: IncidentOptions): Promise<void> {
  const incidents = await reportedIncidents(options)
  if (options.format === 'json') {
    for (const incident of incidents) process.stdout.write(`${jsonLine(incident)}\n`)
    return
  }
  printTable(
    ['id', 'begin', 'state', 'level', 'kind', 'summary'],
    incidents.map((of) => [
      of.id.slice(0, 8),
      eveTime(of.beginMicros).slice(0, 19),
      of.state,
      of.level,
      of.kind,
      of.summary,
    ]),
  )
}

/** @param id - or its beginning */
export async function showIncident(id: string, options: IncidentOptions): Promise<void> {
  const found = (await reportedIncidents(options)).filter((each) => each.id.startsWith(id))
  const [incident] = found
  if (incident === undefined || found.length > 1) {
    const many =
      found.length > 1 ? `${found.length} incidents begin with ${id}` : `there is no incident ${id}`
    throw new UsageError(`${many}; see "oddflow-agent incidents list"`)
  }
  if (options.format === 'json') {
    process.stdout.write(`${jsonLine(incident)}\n`)
    return
  }
  const { level, kind, state, beginMicros, endMicros, summary, facts, contacts } = incident
  const lines = [
    `${incident.id}  ${kind}, ${level}, ${state}`,
    `${eveTime(beginMicros).slice(0, 19)} to ${eveTime(endMicros).slice(0, 19)} UTC`,
    summary,
    ...facts.map(({ rule, count, fact }) => `fact  ${rule} (${count})  ${fact}`),
    ...contacts.map(({ peer, service, alerts }) => `with  ${peer} (${service}), alerts: ${alerts}`),
  ]
  process.stdout.write(`${lines.map(printable).join('\n')}\n`)
}

async function reportedIncidents(options: StateOptions): Promise<Incident[]> {
  const path = pathIn(await stateOf(options))
  const found = await lookAtTwice(nodeFileSystem, path, decodeIncidents)
  if (found.is === 'lost') throw new FormatError('incidents', `${path}: ${found.reason}`)
  if (found.is === 'none') return []
  return found.value
    .filter(({ state }) => state !== 'gathering')
    .sort((a, b) => a.beginMicros - b.beginMicros)
}
