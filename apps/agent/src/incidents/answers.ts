/**
 * AnswerBook: answers of people to incidents, in memory and in the state folder (docs/incidents.md).
 *
 * An incident has one answer, and a new one replaces it. An answer is on disk before it takes effect, and takes effect before it is
 * acknowledged: if it cannot be saved, nothing changes. `normal` needs a model for each device: a process makes it again when another
 * model becomes active, and the old one judges until then.
 */
import { createHash } from 'node:crypto'
import { ArgumentError, FormatError, plural } from '@oddflow/core'
import { decodeModelFile, type SavedModel } from '@oddflow/detectors'
import type { Alert } from '../alerts/alert.js'
import { eveTime } from '../alerts/eve.js'
import type { FileSystem } from '../files/file-system.js'
import { createTurns, type InTurn, lookAt, writeOrRestore } from '../files/state-file.js'
import type { Log } from '../log.js'
import type { ModelManager } from '../models/model-manager.js'
import { kindOfFact } from '../page/kinds.js'
import type { Decider } from '../pipeline/counters.js'
import {
  ANSWER_NAMES,
  ANSWERS,
  type Answer,
  type AnswerName,
  answersFields,
  isMutingKind,
  isStanding,
  MAXIMUM_ANSWERS,
  MAXIMUM_HOURS,
  MAXIMUM_NORMAL,
  type MutingAnswer,
} from './answer.js'
import { AnswerModels, type AnswerModelsOptions, answerModelPath } from './answer-models.js'
import type { Incident } from './incident.js'
import { contactOf, type IncidentRows, isSameContact, pairsOf } from './incident-rows.js'
import { deviceText } from './sentences.js'

const HOUR_MICROS = 3_600_000_000
const DEFAULT_HOURS = 24
/** A scan begins at most so long before its fact, and a flow that began with it may end later. */
const MARGIN_MICROS = 600_000_000
/** Facts about many ports or many hosts, or about a device alone, are of their peer, whatever the service. */
const OF_PEER_ALONE: readonly string[] = ['scan', 'address-taken', 'new-device']
const REMOTE: AnswerLimits = { answers: ['snooze', 'attack'], hours: 24 }
/** Of a message by a broker. */
const MAXIMUM_MESSAGE_BYTES = 512
const TICKS_BETWEEN_RETRIES = 600
/** Contacts that a sentence names. */
const MOST_NAMED = 6

export interface AnswerCounts {
  /** Answers that hold now. */
  readonly standing: Readonly<Record<AnswerName, number>>
  /** Flows novel to the active model, and normal to the model of an answer. */
  readonly normalFlows: number
  /** Answers that came by a broker, by what became of them. */
  readonly remote: Readonly<Record<RemoteFate, number>>
  /** Alerts that went to the EVE file alone. */
  readonly silencedAlerts: number
}

type RemoteFate = 'accepted' | 'retained' | 'repeated' | 'oversized' | 'refused'

/** Answers by a broker, to which watched devices may write as well: a snooze of a day at most, and `attack`. */
export interface RemoteAnswers {
  /** A message: `{ incident, answer, hours? }`. Ignored messages are counted. Never rejects. */
  take(message: Uint8Array, isRetained: boolean): Promise<void>
  /** One was longer than an answer, or too many came. */
  refuseOversized(): void
}

export interface AnswerLimits {
  readonly answers: readonly AnswerName[]
  readonly hours: number
}

interface AnswerBookOptions extends AnswerModelsOptions {
  readonly known: readonly Answer[]
  readonly rows: IncidentRows
  readonly incidents: () => readonly Incident[]
  readonly nowMicros: () => number
  readonly log: Pick<Log, 'info' | 'warn'>
}

export class AnswerBook {
  readonly remote: RemoteAnswers & { fates(): AnswerCounts['remote'] }
  readonly #options: AnswerBookOptions
  readonly #models: AnswerModels
  readonly #inTurn = createTurns()
  #answers: readonly Answer[]
  #learning: Pick<ModelManager, 'unlearn'> | null = null
  #isOfAnswer = false
  #normalFlows = 0
  #silencedAlerts = 0
  #ticks = 0
  #nextRenewal = 0
  #isRenewing = false

  constructor(options: AnswerBookOptions) {
    this.#options = options
    this.#models = new AnswerModels(options)
    this.#answers = options.known
    this.remote = createRemoteAnswers({
      inTurn: this.#inTurn,
      answerOf: (incident) => this.list().find((each) => each.incident === incident)?.answer ?? null,
      give: (asked) => this.#answerNow(asked, REMOTE),
      log: options.log,
    })
  }

  // Requests.

  /**
   * `{ incident, answer, hours? }`, or `answer: 'none'` to remove it. Resolves to sentences about what was done. Rejects with
   * ArgumentError if it cannot be done, with FileError if it cannot be saved. @param most - the answers that are allowed
   */
  answer(
    asked: unknown,
    most: AnswerLimits = { answers: ANSWER_NAMES, hours: MAXIMUM_HOURS },
  ): Promise<{ said: readonly string[] }> {
    return this.#inTurn(async () => {
      try {
        return await this.#answerNow(asked, most)
      } finally {
        // a refused answer may have made some
        await this.#models.removeUnused(this.#answers)
      }
    })
  }

  async #answerNow(
    asked: unknown,
    { answers: allowed, hours: most }: AnswerLimits,
  ): Promise<{ said: readonly string[] }> {
    const {
      incident: id,
      answer,
      hours = Math.min(most, DEFAULT_HOURS),
    } = (asked ?? {}) as Record<string, unknown>
    if (typeof id !== 'string' || !/^[0-9a-f]{32}$/.test(id))
      throw new ArgumentError('expected the id of an incident, 32 hexadecimal digits', 'incident')
    if (answer === 'none' && allowed.length === ANSWER_NAMES.length) {
      const found = this.#answers.find((each) => each.incident === id)
      if (found === undefined) throw new ArgumentError(`${id.slice(0, 8)} has no answer`)
      await this.#put(this.#without(id))
      return { said: [`The answer "${found.answer}" to ${id.slice(0, 8)} is removed.`] }
    }
    const name = allowed.find((each) => each === answer)
    if (name === undefined) throw new ArgumentError(`expected ${allowed.join(', ')}`, 'answer')
    if (typeof hours !== 'number' || !(hours > 0 && hours <= most))
      throw new ArgumentError(`expected hours above 0 and at most ${most}`, 'hours')
    const incident = this.#options.incidents().find((each) => each.id === id && each.state !== 'gathering')
    if (incident === undefined) throw new ArgumentError(`there is no incident ${id.slice(0, 8)}`)
    return this.#give(incident, name, hours)
  }

  async #give(incident: Incident, answer: AnswerName, hours: number): Promise<{ said: readonly string[] }> {
    const atMicros = this.#options.nowMicros()
    const { contacts, rows } = this.#options.rows.of(incident.id)
    const isOfFlows = answer === 'normal' || answer === 'attack'
    const given: Answer = {
      incident: incident.id,
      answer,
      device: incident.key,
      kind: incident.kind,
      summary: incident.summary,
      beginMicros: incident.beginMicros,
      atMicros,
      endsMicros: answer === 'snooze' ? atMicros + hours * HOUR_MICROS : null,
      contacts: isOfFlows ? [...contacts] : [],
      rows: isOfFlows ? rows.map(({ contact, row }) => ({ contact, row: Float64Array.from(row) })) : [],
      models: [],
      changes: [],
    }
    const others = this.#without(incident.id)
    const earlier = this.list().find((each) => each.incident === incident.id && each.answer !== answer)
    const replaced = earlier === undefined ? [] : [`The answer "${earlier.answer}" no longer applies.`]
    checkRoom(given, others)
    if (isOfFlows && contacts.length === 0)
      throw new ArgumentError(`the flows of ${incident.id.slice(0, 8)} are no longer stored`)
    checkConflict(given, others)
    const whole = answer === 'normal' ? { ...given, ...(await this.#makeModels(given)) } : given
    await this.#put([...others, whole])
    if (answer === 'attack')
      this.#learning?.unlearn(
        pairsOf(contacts),
        incident.beginMicros - MARGIN_MICROS,
        incident.endMicros + MARGIN_MICROS,
      )
    return {
      said: [...replaced, saidOf(whole, incident.device), ...whole.changes.map((change) => `${change}.`)],
    }
  }

  // Active answers, and answers on disk.

  /** The answers in effect, also to incidents that are no longer stored. */
  list(): readonly Answer[] {
    const nowMicros = this.#options.nowMicros()
    return this.#answers.filter((each) => isStanding(each, nowMicros))
  }

  #without(incident: string): Answer[] {
    return this.list().filter((each) => each.incident !== incident)
  }

  /** Saved first, then active. */
  async #put(next: readonly Answer[]): Promise<void> {
    const { files, folder } = this.#options
    if (folder !== null) {
      const write = (answers: readonly Answer[]): Promise<void> =>
        ANSWERS.writeTwice(files, folder, answersFields(answers))
      await writeOrRestore(write, next, this.#answers)
    }
    this.#answers = next
    this.#models.use(next)
  }

  /** The agent's clock was set by so much. */
  clockSet(byMicros: number): void {
    if (this.#answers.length === 0) return
    void this.#inTurn(() =>
      this.#put(
        this.#answers.map((each) => ({
          ...each,
          atMicros: each.atMicros + byMicros,
          endsMicros: each.endsMicros === null ? null : each.endsMicros + byMicros,
        })),
      ),
    ).catch((error: Error) => this.#options.log.warn(error.message))
  }

  // Effects.

  /** The answer for which incidents of this kind and device are not reported; null where there is none. */
  mutedBy({ key, kind }: Pick<Incident, 'key' | 'kind'>): MutingAnswer | null {
    const found = this.list().find((each) => isMutingKind(each) && each.device === key && each.kind === kind)
    return (found?.answer as MutingAnswer | undefined) ?? null
  }

  noteSilenced(): void {
    this.#silencedAlerts++
  }

  /** Whether a fact was stated to be normal. */
  isNormalFact(alert: Alert): boolean {
    const kind = kindOfFact(alert.rule)
    if (kind === null || !this.#answers.some(({ answer }) => answer === 'normal')) return false
    const contact = contactOf(alert)
    const isOfPeer = OF_PEER_ALONE.includes(kind)
    return this.#answers.some(
      (each) =>
        each.answer === 'normal' &&
        each.kind === kind &&
        each.contacts.some((own) =>
          isOfPeer ? own.device === contact.device && own.peer === contact.peer : isSameContact(own, contact),
        ),
    )
  }

  /**
   * The decision of the active model, or of an answer's model for a flow that the answer covers.
   * @param models - that are made here, which unlearn the flows of an attack
   */
  judging(inner: Decider, models: Pick<ModelManager, 'unlearn'> | null): Decider {
    this.#learning = models
    this.#models.judgeBeside(inner)
    this.#models.use(this.#answers)
    return {
      ...inner,
      decide: (record) => {
        const decision = inner.decide(record)
        this.#isOfAnswer = decision.novel && this.#models.isNormal(record, decision)
        if (!this.#isOfAnswer) return decision
        this.#normalFlows++
        return { ...decision, novel: false, answered: 'normal' }
      },
    }
  }

  /** Whether an answer made the latest decision: such a flow trains no model. */
  get isOfAnswer(): boolean {
    return this.#isOfAnswer
  }

  /** Rows of attacks on the devices that are chosen. */
  attackRows(isOf: (device: string) => boolean): Float64Array[] {
    return this.#answers
      .filter(({ answer }) => answer === 'attack')
      .flatMap(({ contacts, rows }) =>
        rows.filter(({ contact }) => isOf(contacts[contact]?.device ?? '')).map(({ row }) => row),
      )
  }

  counts(): AnswerCounts {
    const standing = { snooze: 0, 'not-this-kind': 0, attack: 0, normal: 0 }
    for (const { answer } of this.list()) standing[answer]++
    return {
      standing,
      normalFlows: this.#normalFlows,
      silencedAlerts: this.#silencedAlerts,
      remote: this.remote.fates(),
    }
  }

  // Models of answers "normal".

  #makeModels(of: Answer): Promise<Pick<Answer, 'models' | 'changes'>> {
    return this.#models.make(of, (device) => this.attackRows((each) => each === device))
  }

  /** To be called every second or so: rebuilds models of answers if another model is active. */
  tick(): void {
    this.#ticks++
    if (this.#isRenewing || this.#ticks < this.#nextRenewal) return
    const stale = this.#answers.find((each) => this.#models.isStale(each))
    if (stale === undefined) return
    this.#isRenewing = true
    void this.#inTurn(() => this.#renew(stale)).finally(() => {
      this.#isRenewing = false
      if (this.#answers.some((each) => this.#models.isStale(each)))
        this.#nextRenewal = this.#ticks + TICKS_BETWEEN_RETRIES
    })
  }

  /** Rebuilds models of an answer that are lost, or were made from a model that is no longer active. */
  async #renew(of: Answer): Promise<void> {
    try {
      const made = await this.#makeModels(of)
      if (this.#answers.includes(of))
        await this.#put(this.#answers.map((each) => (each === of ? { ...each, ...made } : each)))
    } catch (error) {
      this.#options.log.warn(
        `the answer "normal" to incident ${of.incident.slice(0, 8)} does not fit the active model: ${(error as Error).message}; trying again`,
      )
    }
  }

  /** Ends when no model is being made. */
  idle(): Promise<void> {
    return this.#inTurn(async () => undefined)
  }
}

function checkRoom({ answer }: Answer, others: readonly Answer[]): void {
  if (others.length >= MAXIMUM_ANSWERS)
    throw new ArgumentError(`expected at most ${MAXIMUM_ANSWERS} answers; remove one first`)
  if (answer === 'normal' && others.filter((each) => each.answer === answer).length >= MAXIMUM_NORMAL)
    throw new ArgumentError(`expected at most ${MAXIMUM_NORMAL} answers "normal"; remove one first`)
}

/** Throws ArgumentError where an answer stands that says the opposite of the same flows. */
function checkConflict({ answer, incident, contacts }: Answer, others: readonly Answer[]): void {
  const opposite = answer === 'normal' ? 'attack' : answer === 'attack' ? 'normal' : null
  const found = others.find(
    (each) =>
      each.answer === opposite &&
      each.contacts.some((contact) => contacts.some((own) => isSameContact(contact, own))),
  )
  if (found !== undefined)
    throw new ArgumentError(
      `${incident.slice(0, 8)} cannot be answered "${answer}": incident ${found.incident.slice(0, 8)}, with the same peer and service, was answered "${found.answer}"; remove that answer first`,
    )
}

interface RemoteOptions {
  readonly inTurn: InTurn
  /** The answer that an incident has now. */
  readonly answerOf: (incident: unknown) => AnswerName | null
  readonly give: (asked: unknown) => Promise<unknown>
  readonly log: Pick<Log, 'info'>
}

function createRemoteAnswers({
  inTurn,
  answerOf,
  give,
  log,
}: RemoteOptions): RemoteAnswers & { fates(): Readonly<Record<RemoteFate, number>> } {
  const fates: Record<RemoteFate, number> = {
    accepted: 0,
    retained: 0,
    repeated: 0,
    oversized: 0,
    refused: 0,
  }
  const takeRemote = async (message: Uint8Array, isRetained: boolean): Promise<RemoteFate> => {
    // one that the broker keeps is of another day
    if (isRetained) return 'retained'
    if (message.length > MAXIMUM_MESSAGE_BYTES) return 'oversized'
    try {
      const asked = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(message)) as unknown
      const { incident, answer } = (asked ?? {}) as Record<string, unknown>
      return await inTurn(async () => {
        const found = answerOf(incident)
        if (found === answer) return 'repeated'
        // what a person said at the agent itself counts more
        if (found !== null) return 'refused'
        await give(asked)
        log.info(`incident ${String(incident).slice(0, 8)} was answered "${String(answer)}" by MQTT`)
        return 'accepted'
      })
    } catch {
      return 'refused'
    }
  }
  return {
    async take(message, isRetained) {
      fates[await takeRemote(message, isRetained)]++
    },
    refuseOversized() {
      fates.oversized++
    },
    fates: () => ({ ...fates }),
  }
}

function saidOf(
  { answer, incident, device: key, kind, endsMicros, contacts, rows }: Answer,
  device: Incident['device'],
): string {
  const of = `Incidents of kind ${kind} of ${deviceText(device)}`
  switch (answer) {
    case 'snooze':
      return `${of} are not reported until ${eveTime(endsMicros ?? 0).slice(0, 16)} UTC.`
    case 'not-this-kind':
      return `${of} are no longer reported.`
    case 'attack':
      return `Incident ${incident.slice(0, 8)} is recorded as an attack: no model learns its ${plural(rows.length, 'flow')}. A new model that finds one of them normal is refused.`
    case 'normal':
      return normalText(kind, contacts, key)
  }
}

function normalText(kind: string, contacts: Answer['contacts'], key: string): string {
  // ARP and neighbor discovery have no peer and no service
  const named = contacts.filter(({ service }) => !service.startsWith('0 '))
  if (named.length === 0) return `From now on facts of kind ${kind} of this device are normal.`
  const facts = OF_PEER_ALONE.includes(kind)
    ? ` Facts of kind ${kind} with these peers are normal too, whatever the service.`
    : ''
  return `From now on, traffic like that of this incident is normal with ${contactsText(named, key)}.${facts} Traffic with all other peers and services is judged as before.`
}

/** Of each contact the end that is not the incident's device. */
function contactsText(contacts: Answer['contacts'], key: string): string {
  const services = new Map<string, Set<string>>()
  for (const { device, address = device, peer, service } of contacts) {
    const other = device === key ? peer : address
    services.set(other, (services.get(other) ?? new Set<string>()).add(service))
  }
  const names = [...services].map(
    ([peer, of]) => `${peer} (${of.size > MOST_NAMED ? plural(of.size, 'service') : [...of].join(', ')})`,
  )
  const more = names.length - MOST_NAMED
  return `${names.slice(0, MOST_NAMED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

/** Answers of an earlier run, with their undamaged models; damaged models are reported and rebuilt. */
export async function readAnswers(
  files: FileSystem,
  folder: string,
  log: Pick<Log, 'warn'>,
): Promise<{ known: Answer[]; models: Map<string, SavedModel> }> {
  const known = (await ANSWERS.readTwice(files, folder, 'earlier answers are lost', log)) ?? []
  const models = new Map<string, SavedModel>()
  for (const { sha256 } of known.flatMap(({ models: own }) => own)) {
    const file = answerModelPath(folder, sha256)
    const model = await lookAt(files, file, (bytes) => {
      if (createHash('sha256').update(bytes).digest('hex') !== sha256)
        throw new FormatError('model', 'is damaged')
      return decodeModelFile(bytes)
    })
    if (model.is === 'whole') models.set(sha256, model.value)
    else
      log.warn(
        `${file}: ${model.is === 'damaged' ? model.reason : 'is missing'}; the model of this answer is being rebuilt`,
      )
  }
  return { known, models }
}
