/**
 * AnswerBook: what people said of incidents, in force and in the state folder.
 *
 *     snooze          incidents of this kind and device are not reported for a time
 *     not-this-kind   they are not reported any more
 *     attack          rows of its flows train no model, and no model is used that finds one of them normal
 *     normal          flows of these devices with these peers and services are judged by a model that was updated with them, where
 *                     the model in force finds them novel; facts of this kind with these peers and services are no evidence
 *
 * An incident has one answer: another one takes its place. An answer is on disk before it is in force, and in force before it is
 * acknowledged; where it cannot be kept nothing has changed. `normal` needs the model of each device: made again, in a process, when
 * another model is in force, until which the one of before goes on judging. Models lie in `answers/` of the state folder.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { ArgumentError, FormatError, plural } from '@oddflow/core'
import { decodeModelFile, type SavedModel } from '@oddflow/detectors'
import { fileError } from '@oddflow/program'
import type { Alert } from '../alerts/alert.js'
import { eveTime } from '../alerts/eve.js'
import type { FileSystem } from '../files/file-system.js'
import { lookAt, readTwice, writeStateTwice } from '../files/state-file.js'
import type { Log } from '../log.js'
import type { ModelManager } from '../models/model-manager.js'
import type { Decider } from '../pipeline/counters.js'
import {
  ANSWER_NAMES,
  type Answer,
  type AnswerName,
  answersPathIn,
  decodeAnswers,
  encodeAnswers,
  isMutingKind,
  isStanding,
  MAXIMUM_ANSWERS,
  MAXIMUM_HOURS,
  MAXIMUM_NORMAL,
  type MutingAnswer,
} from './answer.js'
import { type AnswerModelsOptions, createAnswerModels } from './answer-models.js'
import { type Incident, kindOfFact } from './incident.js'
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
  /** Flows that the model in force found novel and the model of an answer normal. */
  readonly normalFlows: number
  /** Answers that came by a broker, by what became of them. */
  readonly remote: Readonly<Record<RemoteFate, number>>
  /** Alerts that went to the EVE file alone. */
  readonly silencedAlerts: number
}

type RemoteFate = 'accepted' | 'retained' | 'repeated' | 'oversized' | 'refused'

/** Answers by a broker, to which watched devices may write as well: a snooze of a day at most, and `attack`. */
export interface RemoteAnswers {
  /** A message: `{ incident, answer, hours? }`. What is ignored is counted. Never rejects. */
  take(message: Uint8Array, isRetained: boolean): Promise<void>
  /** One was longer than an answer, or too many came. */
  refuseOversized(): void
}

export interface AnswerBook {
  readonly remote: RemoteAnswers
  /**
   * What a person asks: `{ incident, answer, hours? }`, or `answer: 'none'` to take it back. Resolves to sentences that say what was
   * done. Rejects with ArgumentError for what cannot be done, and where it cannot be kept: then nothing has changed.
   * @param most - what may be asked; default all
   */
  answer(asked: unknown, most?: AnswerLimits): Promise<{ said: readonly string[] }>
  /** Of incidents that are kept, and of others. */
  list(): readonly Answer[]
  /** The answer for which incidents of this kind and device are not reported; null where there is none. */
  mutedBy(incident: Pick<Incident, 'key' | 'kind'>): MutingAnswer | null
  /** Whether a fact was stated to be normal. */
  isNormalFact(alert: Alert): boolean
  noteSilenced(): void
  /**
   * The decision of the model in force, or of an answer's model for a flow that the answer covers.
   * @param models - that are made here, which unlearn the flows of an attack
   */
  judging(decider: Decider, models: Pick<ModelManager, 'unlearn'> | null): Decider
  /** Whether the latest decision was one of an answer: such a flow is of no model's training. */
  readonly isOfAnswer: boolean
  /** Rows of attacks on the devices that are chosen. */
  attackRows(isOf: (device: string) => boolean): Float64Array[]
  /** The agent's clock was set by so much. */
  clockSet(byMicros: number): void
  /** To be called every second or so: makes models again where another one is in force. */
  tick(): void
  /** Ends when no model is being made. */
  idle(): Promise<void>
  counts(): AnswerCounts
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

export function createAnswerBook(options: AnswerBookOptions): AnswerBook {
  const { files, folder, rows, nowMicros, log } = options
  let answers: readonly Answer[] = options.known
  const models = createAnswerModels(options)
  let learning: Pick<ModelManager, 'unlearn'> | null = null
  let isOfAnswer = false
  let normalFlows = 0
  let silencedAlerts = 0
  let ticks = 0
  let last: Promise<unknown> = Promise.resolve()

  /** One change after another. */
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const done = last.then(work)
    last = done.catch(() => undefined)
    return done
  }
  const standing = (): readonly Answer[] => answers.filter((each) => isStanding(each, nowMicros()))
  /** Kept first, then in force. */
  const put = async (next: readonly Answer[]): Promise<void> => {
    if (folder !== null) {
      try {
        await files.makeFolder(folder)
        await writeStateTwice(files, answersPathIn(folder), encodeAnswers(next))
      } catch (error) {
        // it may have got as far as its name; what is in force is what a restart should find
        await writeStateTwice(files, answersPathIn(folder), encodeAnswers(answers)).catch(() => undefined)
        throw fileError('write', answersPathIn(folder), error)
      }
    }
    answers = next
    models.use(answers)
  }
  const attackRows: AnswerBook['attackRows'] = (isOf) =>
    answers
      .filter(({ answer }) => answer === 'attack')
      .flatMap(({ contacts, rows: own }) =>
        own.filter(({ contact }) => isOf(contacts[contact]?.device ?? '')).map(({ row }) => row),
      )
  const attackRowsOf = (device: string): Float64Array[] => attackRows((each) => each === device)
  const without = (incident: string): Answer[] => standing().filter((each) => each.incident !== incident)

  /** Throws ArgumentError where an answer stands that says the opposite of the same flows. */
  const checkConflict = (answer: AnswerName, of: Answer): void => {
    const opposite = answer === 'normal' ? 'attack' : answer === 'attack' ? 'normal' : null
    const found = without(of.incident).find(
      (each) =>
        each.answer === opposite &&
        each.contacts.some((contact) => of.contacts.some((own) => isSameContact(contact, own))),
    )
    if (found !== undefined)
      throw new ArgumentError(
        `${of.incident.slice(0, 8)} cannot be answered "${answer}": incident ${found.incident.slice(0, 8)}, with the same peer and service, was answered "${found.answer}"; take that answer back first`,
      )
  }
  const give = async (
    incident: Incident,
    answer: AnswerName,
    hours: number,
  ): Promise<{ said: readonly string[] }> => {
    const atMicros = nowMicros()
    const { contacts, rows: own } = rows.of(incident.id)
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
      rows: isOfFlows ? own.map(({ contact, row }) => ({ contact, row: Float64Array.from(row) })) : [],
      models: [],
      changes: [],
    }
    const others = without(incident.id)
    if (others.length >= MAXIMUM_ANSWERS)
      throw new ArgumentError(`expected at most ${MAXIMUM_ANSWERS} answers; take one back first`)
    if (answer === 'normal' && others.filter((each) => each.answer === answer).length >= MAXIMUM_NORMAL)
      throw new ArgumentError(`expected at most ${MAXIMUM_NORMAL} answers "normal"; take one back first`)
    if (isOfFlows && contacts.length === 0)
      throw new ArgumentError(`the flows of ${incident.id.slice(0, 8)} are not kept any more`)
    checkConflict(answer, given)
    const made = answer === 'normal' ? await models.make(given, attackRowsOf) : null
    const whole = { ...given, ...made }
    await put([...others, whole])
    if (answer === 'attack')
      learning?.unlearn(
        pairsOf(contacts),
        incident.beginMicros - MARGIN_MICROS,
        incident.endMicros + MARGIN_MICROS,
      )
    return { said: [saidOf(whole, incident.device), ...whole.changes] }
  }
  const answerNow = async (
    asked: unknown,
    { answers: allowed, hours: most }: AnswerLimits,
  ): Promise<{ said: readonly string[] }> => {
    const {
      incident: id,
      answer,
      hours = Math.min(most, DEFAULT_HOURS),
    } = (asked ?? {}) as Record<string, unknown>
    if (typeof id !== 'string' || !/^[0-9a-f]{32}$/.test(id))
      throw new ArgumentError('expected the id of an incident, 32 hexadecimal digits', 'incident')
    if (answer === 'none' && allowed.length === ANSWER_NAMES.length) {
      const found = answers.find((each) => each.incident === id)
      if (found === undefined) throw new ArgumentError(`${id.slice(0, 8)} has no answer`)
      await put(without(id))
      return { said: [`The answer "${found.answer}" to ${id.slice(0, 8)} no longer holds.`] }
    }
    const name = allowed.find((each) => each === answer)
    if (name === undefined) throw new ArgumentError(`expected ${allowed.join(', ')}`, 'answer')
    if (typeof hours !== 'number' || !(hours > 0 && hours <= most))
      throw new ArgumentError(`expected hours above 0 and at most ${most}`, 'hours')
    const incident = options.incidents().find((each) => each.id === id && each.state !== 'gathering')
    if (incident === undefined) throw new ArgumentError(`there is no incident ${id.slice(0, 8)}`)
    return give(incident, name, hours)
  }
  /** Makes the models of an answer again that were made of another model than is in force, or are lost. */
  const renew = async (of: Answer): Promise<void> => {
    try {
      const made = await models.make(of, attackRowsOf)
      if (answers.includes(of)) await put(answers.map((each) => (each === of ? { ...each, ...made } : each)))
    } catch (error) {
      log.warn(
        `the answer "normal" to incident ${of.incident.slice(0, 8)} does not fit the model that is in force now: ${(error as Error).message}; trying again`,
      )
    }
  }
  const remote = createRemoteAnswers({
    inTurn,
    answerOf: (incident) => standing().find((each) => each.incident === incident)?.answer ?? null,
    give: (asked) => answerNow(asked, REMOTE),
    log,
  })
  let isRenewing = false
  let nextRenewal = 0

  return {
    answer: (asked, most = { answers: ANSWER_NAMES, hours: MAXIMUM_HOURS }) =>
      inTurn(async () => {
        try {
          return await answerNow(asked, most)
        } finally {
          // of an answer that was refused, some may be made
          await models.removeUnused(answers)
        }
      }),
    remote,
    list: standing,
    mutedBy({ key, kind }) {
      const found = standing().find((each) => isMutingKind(each) && each.device === key && each.kind === kind)
      return (found?.answer as MutingAnswer | undefined) ?? null
    },
    isNormalFact(alert) {
      const kind = kindOfFact(alert.rule)
      if (kind === null || !answers.some(({ answer }) => answer === 'normal')) return false
      const contact = contactOf(alert)
      const isOfPeer = OF_PEER_ALONE.includes(kind)
      return answers.some(
        (each) =>
          each.answer === 'normal' &&
          each.kind === kind &&
          each.contacts.some((own) =>
            isOfPeer
              ? own.device === contact.device && own.peer === contact.peer
              : isSameContact(own, contact),
          ),
      )
    },
    noteSilenced() {
      silencedAlerts++
    },
    judging(inner, made) {
      learning = made
      models.judgeBeside(inner)
      models.use(answers)
      return {
        ...inner,
        decide(record) {
          const decision = inner.decide(record)
          isOfAnswer = decision.novel && models.isNormal(record, decision)
          if (!isOfAnswer) return decision
          normalFlows++
          return { ...decision, novel: false, answered: 'normal' }
        },
      }
    },
    get isOfAnswer() {
      return isOfAnswer
    },
    attackRows,
    clockSet(byMicros) {
      if (answers.length === 0) return
      void inTurn(() =>
        put(
          answers.map((each) => ({
            ...each,
            atMicros: each.atMicros + byMicros,
            endsMicros: each.endsMicros === null ? null : each.endsMicros + byMicros,
          })),
        ),
      ).catch((error: Error) => log.warn(error.message))
    },
    tick() {
      ticks++
      const stale = isRenewing || ticks < nextRenewal ? undefined : answers.find(models.isStale)
      if (stale === undefined) return
      isRenewing = true
      void inTurn(() => renew(stale)).finally(() => {
        isRenewing = false
        if (answers.some(models.isStale)) nextRenewal = ticks + TICKS_BETWEEN_RETRIES
      })
    },
    async idle() {
      await last
    },
    counts: () => ({
      standing: Object.fromEntries(
        ANSWER_NAMES.map((name) => [name, standing().filter(({ answer }) => answer === name).length]),
      ) as Record<AnswerName, number>,
      normalFlows,
      silencedAlerts,
      remote: remote.fates(),
    }),
  }
}

interface RemoteOptions {
  /** One change after another. */
  readonly inTurn: <T>(work: () => Promise<T>) => Promise<T>
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
  { answer, incident, kind, endsMicros, contacts, rows }: Answer,
  device: Incident['device'],
): string {
  const of = `incidents of kind ${kind} of ${deviceText(device)}`
  const isOfPeer = OF_PEER_ALONE.includes(kind)
  switch (answer) {
    case 'snooze':
      return `Until ${eveTime(endsMicros ?? 0).slice(0, 16)} UTC ${of} are not reported.`
    case 'not-this-kind':
      return `From now on ${of} are not reported.`
    case 'attack':
      return `${incident.slice(0, 8)} is kept as an attack: no model learns from its ${plural(rows.length, 'flow')}, and none is used that finds one of them normal.`
    case 'normal':
      return `From now on such traffic is normal with ${contactsText(contacts)}${isOfPeer ? `, and kind ${kind} with every service of these peers` : ''}; with all others the model judges as before.`
  }
}

function contactsText(contacts: Answer['contacts']): string {
  const services = new Map<string, Set<string>>()
  for (const { peer, service } of contacts)
    services.set(peer, (services.get(peer) ?? new Set<string>()).add(service))
  const names = [...services].map(
    ([peer, of]) => `${peer} (${of.size > MOST_NAMED ? plural(of.size, 'service') : [...of].join(', ')})`,
  )
  const more = names.length - MOST_NAMED
  return `${names.slice(0, MOST_NAMED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

/** Of an earlier run, with the models that are whole; what is damaged is reported, and made again. */
export async function readAnswers(
  files: FileSystem,
  folder: string,
  log: Pick<Log, 'warn'>,
): Promise<{ known: Answer[]; models: Map<string, SavedModel> }> {
  const path = answersPathIn(folder)
  const found = await readTwice(files, path, decodeAnswers)
  if (found.is === 'copy') log.warn(`${path}: ${found.reason}; its copy is used`)
  if (found.is === 'lost') log.warn(`${path}: ${found.reason}; earlier answers are lost`)
  const known = found.is === 'whole' || found.is === 'copy' ? found.value : []
  const models = new Map<string, SavedModel>()
  for (const { sha256 } of known.flatMap(({ models: own }) => own)) {
    const file = join(folder, 'answers', `${sha256}.oddflow`)
    const model = await lookAt(files, file, (bytes) => {
      if (createHash('sha256').update(bytes).digest('hex') !== sha256)
        throw new FormatError('model', 'is damaged')
      return decodeModelFile(bytes)
    })
    if (model.is === 'whole') models.set(sha256, model.value)
    else
      log.warn(
        `${file}: ${model.is === 'damaged' ? model.reason : 'is gone'}; the model of an answer is made again`,
      )
  }
  return { known, models }
}
