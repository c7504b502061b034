/**
 * `oddflow-agent incidents`: lists, shows and answers incidents. A running agent writes each report and answer to the state folder within
 * a second, so only an answer needs its control socket.
 */
import { FormatError } from '@oddflow/core'
import { jsonLine, printable, UsageError } from '@oddflow/program'
import { eveTime } from '../alerts/eve.js'
import { askAgent } from '../devices/control-socket.js'
import { PEER_NAMES, type PeerNames, withPeerNames } from '../devices/peer-names.js'
import { nodeFileSystem } from '../files/file-system.js'
import { lookAtState, lookAtTwice } from '../files/state-file.js'
import { ANSWERS, type Answer, isMutingKind, isStanding, MAXIMUM_HOURS } from '../incidents/answer.js'
import { INCIDENTS, type Incident } from '../incidents/incident.js'
import { deviceText } from '../incidents/sentences.js'
import { adviceOf } from '../page/kinds.js'
import { type ListFormat, printList, type StateOptions, stateOf } from './state-of.js'

interface IncidentOptions extends StateOptions {
  readonly format: ListFormat
}

/** An incident, or the part of a forgotten one that its answer keeps. */
type Listed = Partial<Incident> &
  Pick<Incident, 'id' | 'key' | 'kind' | 'summary' | 'beginMicros'> & { readonly answer: Listing | null }

type Listing = Pick<Answer, 'incident' | 'answer' | 'kind' | 'atMicros' | 'endsMicros' | 'changes'>

/** Prints reported or answered incidents, the latest last. */
export async function listIncidents(options: IncidentOptions): Promise<void> {
  printList(options.format, await knownIncidents(await stateOf(options)), {
    id: ({ id }) => id.slice(0, 8),
    'begin (UTC)': ({ beginMicros }) => eveTime(beginMicros).slice(0, 19),
    state: ({ state }) => state ?? '-',
    level: ({ level }) => level ?? '-',
    kind: ({ kind }) => kind,
    device: ({ device, key }) => (device === undefined ? key : deviceText(device)),
    answer: answerText,
    summary: ({ summary }) => summary,
  })
}

/** Its kind too if the incident became another one since, which such an answer does not mute. */
function answerText({ id, kind, answer }: Listed): string {
  if (answer === null) return '-'
  const until = answer.endsMicros === null ? '' : ` until ${eveTime(answer.endsMicros).slice(0, 16)}`
  const to = answer.incident === id ? '' : ` (given to ${answer.incident.slice(0, 8)})`
  const as = answer.kind === kind ? '' : ` (of kind ${answer.kind})`
  return `${answer.answer}${until}${to}${as}`
}

/** @param id - or its beginning */
export async function showIncident(id: string, options: IncidentOptions): Promise<void> {
  const state = await stateOf(options)
  const incident = withPeerNames(await oneIncident(state, id), await peerNamesIn(state))
  if (options.format === 'json') {
    process.stdout.write(`${jsonLine(incident)}\n`)
    return
  }
  const { kind, beginMicros, summary, answer } = incident
  const { level = '-', state: now = '-', endMicros = beginMicros, facts = [], contacts = [] } = incident
  const lines = [
    `${incident.id}  ${kind}, ${level}, ${now}`,
    `${eveTime(beginMicros).slice(0, 19)} to ${eveTime(endMicros).slice(0, 19)} UTC`,
    summary,
    ...(now === 'over' ? [] : [`to do  ${adviceOf({ kind, facts })}`]),
    ...facts.map(({ rule, count, fact }) => `fact  ${rule} (${count})${fact === '' ? '' : `  ${fact}`}`),
    ...contacts.map(({ peer, service, alerts }) => `with  ${peer} (${service}), alerts: ${alerts}`),
    ...(answer === null ? [] : [`answer  ${answerText(incident)}`, ...answer.changes]),
  ]
  process.stdout.write(`${lines.map(printable).join('\n')}\n`)
}

/** The peer names that the agent has saved, if it looks for them. */
async function peerNamesIn(state: string): Promise<PeerNames['of']> {
  const path = PEER_NAMES.pathIn(state)
  const kept = await lookAtState(nodeFileSystem, path, PEER_NAMES.decode)
  if (kept.is === 'damaged') throw new FormatError('peer-names', `${path}: ${kept.reason}`)
  return (device, addresses) =>
    kept.is === 'none'
      ? []
      : kept.value.filter((each) => each.device === device && addresses.includes(each.address))
}

interface AnswerOptions extends IncidentOptions {
  readonly hours?: number
}

/** @param id - or its beginning */
export async function answerIncident(id: string, answer: string, options: AnswerOptions): Promise<void> {
  const { hours } = options
  if (hours !== undefined && answer !== 'snooze') throw new UsageError('--hours: only a snooze has an end')
  if (hours !== undefined && hours > MAXIMUM_HOURS)
    throw new UsageError(`--hours: expected at most ${MAXIMUM_HOURS}`)
  const state = await stateOf(options)
  const incident = await oneIncident(state, id)
  const asked = { incident: incident.id, answer, ...(hours === undefined ? {} : { hours }) }
  const answered = await askAgent(state, '/incidents', asked)
  if (answered === null)
    throw new UsageError(`${state}: no agent that keeps incidents runs here; start it, then answer`)
  const { said } = answered as { said: readonly string[] }
  if (options.format === 'json') process.stdout.write(`${jsonLine({ ...asked, said })}\n`)
  else process.stdout.write(`${said.map(printable).join('\n')}\n`)
}

async function oneIncident(state: string, id: string): Promise<Listed> {
  const found = (await knownIncidents(state)).filter((each) => each.id.startsWith(id))
  const [incident] = found
  if (incident !== undefined && found.length === 1) return incident
  const many = found.length > 1 ? `${found.length} incidents begin with ${id}` : `there is no incident ${id}`
  throw new UsageError(`${many}; see "oddflow-agent incidents list"`)
}

async function knownIncidents(state: string): Promise<Listed[]> {
  const incidents = await keptIn(INCIDENTS.pathIn(state), INCIDENTS.decode)
  const answers = (await keptIn(ANSWERS.pathIn(state), ANSWERS.decode)).filter((each) =>
    isStanding(each, Date.now() * 1000),
  )
  /** Its own answer, or one that mutes its device and kind. */
  const answerOf = ({ id, state: now, key, kind }: Incident): Answer | undefined =>
    answers.find(({ incident }) => incident === id) ??
    answers.find((each) => now === 'open' && each.device === key && each.kind === kind && isMutingKind(each))
  const listed: Listed[] = incidents
    .filter((each) => each.state !== 'gathering')
    .map((each) => ({ ...each, answer: listingOf(answerOf(each)) }))
  const ids = new Set(listed.map((each) => each.id))
  for (const answer of answers) {
    const { incident: id, device: key, kind, summary, beginMicros } = answer
    if (!ids.has(id)) listed.push({ id, key, kind, summary, beginMicros, answer: listingOf(answer) })
  }
  return listed.sort((a, b) => a.beginMicros - b.beginMicros)
}

function listingOf(answer: Answer | undefined): Listing | null {
  if (answer === undefined) return null
  const { incident, answer: name, kind, atMicros, endsMicros, changes } = answer
  return { incident, answer: name, kind, atMicros, endsMicros, changes }
}

async function keptIn<T>(path: string, decode: (value: unknown) => T[]): Promise<T[]> {
  const found = await lookAtTwice(nodeFileSystem, path, decode)
  if (found.is === 'lost') throw new FormatError('incidents', `${path}: ${found.reason}`)
  return found.is === 'none' ? [] : found.value
}
