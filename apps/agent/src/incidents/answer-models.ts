/**
 * AnswerModels: the models of answers `normal`: each judges the flows of one device with the contacts of one answer. They lie in
 * `answers/` of the state folder, by the SHA-256 of their files.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { formatAddress } from '@oddflow/capture'
import { decodeModelFile, encodeModelFile, type SavedModel } from '@oddflow/detectors'
import { type FlowRecord, protocolName } from '@oddflow/flows'
import {
  createFlowJudge,
  deviceKeyOf,
  type FlowJudge,
  fileError,
  isResponderDevice,
  type Network,
} from '@oddflow/program'
import type { FileSystem } from '../files/file-system.js'
import { writeBytes } from '../files/state-file.js'
import type { AcceptedRows, AcceptJob } from '../models/accept-rows.js'
import { joinRows } from '../models/train.js'
import type { AgentVerdict, Decider } from '../pipeline/counters.js'
import type { Answer } from './answer.js'
import type { IncidentRows } from './incident-rows.js'
import { serviceText } from './sentences.js'

/** What judges flows of a device with the contacts of an answer. */
interface Overlay {
  readonly contacts: ReadonlySet<string>
  readonly judge: FlowJudge['judge']
}

export interface AnswerModelsOptions {
  /** Of an earlier run, by the SHA-256 of their files. */
  readonly models: ReadonlyMap<string, SavedModel>
  /** null: nothing is kept over a restart. */
  readonly folder: string | null
  readonly files: FileSystem
  readonly localNetworks: readonly Network[]
  readonly rows: Pick<IncidentRows, 'ofDevice'>
  readonly accept: (job: AcceptJob) => Promise<AcceptedRows>
}

export interface AnswerModels {
  /** What judges in general, from which models are made. */
  judgeBeside(decider: Decider): void
  /** The answers that are in force. */
  use(answers: readonly Answer[]): void
  /**
   * The models that an answer needs now. Rejects with the error that says why there is none.
   * @param attackRows - of a device, which none of them may find normal
   */
  make(
    of: Pick<Answer, 'incident' | 'contacts' | 'rows'>,
    attackRows: (device: string) => readonly Float64Array[],
  ): Promise<Pick<Answer, 'models' | 'changes'>>
  removeUnused(answers: readonly Answer[]): Promise<void>
  /** Whether models of an answer were made of another model than is in force, or are lost. */
  isStale(answer: Answer): boolean
  /** Whether a flow that is novel is normal by an answer that covers it. */
  isNormal(record: FlowRecord, verdict: AgentVerdict): boolean
}

export function createAnswerModels(options: AnswerModelsOptions): AnswerModels {
  const { files, folder, rows } = options
  const models = new Map(options.models)
  let decider: Decider | null = null
  /** By device. */
  let overlays = new Map<string, Overlay[]>()
  const modelPath = (sha256: string): string => join(folder ?? '', 'answers', `${sha256}.oddflow`)
  const use = (answers: readonly Answer[]): void => {
    overlays = new Map()
    for (const { answer, models: own, contacts } of answers) {
      if (answer !== 'normal') continue
      for (const { device, sha256 } of own) {
        const saved = models.get(sha256)
        if (saved === undefined || decider === null) continue
        overlays.set(device, [
          ...(overlays.get(device) ?? []),
          {
            contacts: new Set(
              contacts
                .filter((each) => each.device === device)
                .map(({ peer, service }) => `${peer} ${service}`),
            ),
            judge: createFlowJudge(saved, decider.row).judge,
          },
        ])
      }
    }
  }
  const make: AnswerModels['make'] = async (of, attackRows) => {
    const made: Answer['models'] = []
    const changes: string[] = []
    for (const device of new Set(of.contacts.map((each) => each.device))) {
      const inForce = decider?.modelOf(device) ?? null
      if (inForce === null) continue
      // rows of other features are of a model of before
      const isOfNow = ({ length }: Float64Array): boolean => length === inForce.saved.contract.dimension
      const given = of.rows
        .filter(({ contact, row }) => of.contacts[contact]?.device === device && isOfNow(row))
        .map(({ row }) => row)
      if (given.length === 0) continue
      const isGiven = new Set(given.map(String))
      const { file, changes: said } = await options.accept({
        accept: encodeModelFile(inForce.saved),
        rows: joinRows(given),
        others: joinRows(rows.ofDevice(device).filter((row) => isOfNow(row) && !isGiven.has(String(row)))),
        attacks: joinRows(attackRows(device).filter(isOfNow)),
        seed: 1,
      })
      const sha256 = createHash('sha256').update(file).digest('hex')
      if (folder !== null) {
        try {
          await files.makeFolder(join(folder, 'answers'))
          await writeBytes(files, modelPath(sha256), file)
        } catch (error) {
          throw fileError('write', modelPath(sha256), error)
        }
      }
      models.set(sha256, decodeModelFile(file))
      made.push({ device, base: inForce.model, sha256 })
      changes.push(...said.map((text) => `${device}: ${text}`))
    }
    if (made.length === 0)
      changes.push(`No model changes: ${of.incident.slice(0, 8)} has no flow with a score`)
    return { models: made, changes }
  }
  const removeUnused = async (answers: readonly Answer[]): Promise<void> => {
    const used = new Set(answers.flatMap(({ models: own }) => own.map(({ sha256 }) => sha256)))
    for (const sha256 of [...models.keys()]) {
      if (used.has(sha256)) continue
      models.delete(sha256)
      if (folder !== null) await files.remove(modelPath(sha256)).catch(() => undefined)
    }
  }
  const isStale: AnswerModels['isStale'] = ({ models: own, answer }) =>
    answer === 'normal' &&
    own.some(({ device, base, sha256 }) => {
      const inForce = decider?.modelOf(device) ?? null
      return inForce !== null && (inForce.model !== base || !models.has(sha256))
    })
  const isNormal: AnswerModels['isNormal'] = (record, { rule }) => {
    const own = overlays.get(deviceKeyOf(record, options.localNetworks))
    if (own === undefined) return false
    const isResponder = isResponderDevice(record, options.localNetworks)
    const peer = formatAddress(
      isResponder ? record.initiatorAddress : record.responderAddress,
      0,
      record.ipVersion,
    )
    const port = Math.min(record.initiatorPort, record.responderPort)
    const contact = `${peer} ${serviceText(protocolName(record.protocol), port)}`
    // a flow of one packet may have no row: its service was stated to be normal
    return own.some(
      ({ contacts, judge }) => contacts.has(contact) && (rule === 'one-packet' || !judge(record).novel),
    )
  }
  return {
    judgeBeside(inner) {
      decider = inner
    },
    use,
    make,
    removeUnused,
    isStale,
    isNormal,
  }
}
