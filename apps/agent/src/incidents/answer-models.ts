/**
 * AnswerModels: the models of answers `normal`: each judges the flows of one device with the contacts of one answer. They lie in
 * `answers/` of the state folder, by the SHA-256 of their files.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { decodeModelFile, encodeModelFile, type SavedModel } from '@oddflow/detectors'
import type { FlowRecord } from '@oddflow/flows'
import { createFlowJudge, type FlowJudge, type Network } from '@oddflow/program'
import type { FileSystem } from '../files/file-system.js'
import { writeBytes } from '../files/state-file.js'
import type { AcceptedRows, AcceptJob } from '../models/accept-rows.js'
import { joinRows } from '../models/train.js'
import type { AgentVerdict, Decider } from '../pipeline/counters.js'
import type { Answer } from './answer.js'
import { contactOfRecord, type IncidentRows, isSameContact } from './incident-rows.js'

/** What judges flows of a device with the contacts of an answer. */
interface Overlay {
  readonly contacts: Answer['contacts']
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

export class AnswerModels {
  readonly #options: AnswerModelsOptions
  readonly #models: Map<string, SavedModel>
  #decider: Decider | null = null
  /** By device. */
  #overlays = new Map<string, Overlay[]>()

  constructor(options: AnswerModelsOptions) {
    this.#options = options
    this.#models = new Map(options.models)
  }

  /** What judges in general, from which models are made. */
  judgeBeside(decider: Decider): void {
    this.#decider = decider
  }

  /** The active answers. */
  use(answers: readonly Answer[]): void {
    this.#overlays = new Map()
    for (const { answer, models, contacts } of answers) {
      if (answer !== 'normal') continue
      for (const { device, sha256 } of models) {
        const saved = this.#models.get(sha256)
        if (saved === undefined || this.#decider === null) continue
        const { judge } = createFlowJudge(saved, this.#decider.row)
        const overlay = { contacts: contacts.filter((each) => each.device === device), judge }
        this.#overlays.set(device, [...(this.#overlays.get(device) ?? []), overlay])
      }
    }
  }

  /**
   * The models that an answer needs now. Rejects with the error that says why there is none.
   * @param attackRows - of a device, which none of them may find normal
   */
  async make(
    of: Pick<Answer, 'incident' | 'contacts' | 'rows'>,
    attackRows: (device: string) => readonly Float64Array[],
  ): Promise<Pick<Answer, 'models' | 'changes'>> {
    const models: Answer['models'] = []
    const changes: string[] = []
    const devices = new Set(of.contacts.map((each) => each.device))
    for (const device of devices) {
      const inForce = this.#decider?.modelOf(device) ?? null
      if (inForce === null) continue
      // rows of other features are of a model of before
      const isOfNow = ({ length }: Float64Array): boolean => length === inForce.saved.contract.dimension
      const given = of.rows
        .filter(({ contact, row }) => of.contacts[contact]?.device === device && isOfNow(row))
        .map(({ row }) => row)
      if (given.length === 0) continue
      const isGiven = new Set(given.map(String))
      const others = this.#options.rows
        .ofDevice(device)
        .filter((row) => isOfNow(row) && !isGiven.has(String(row)))
      const made = await this.#options.accept({
        accept: encodeModelFile(inForce.saved),
        rows: joinRows(given),
        others: joinRows(others),
        attacks: joinRows(attackRows(device).filter(isOfNow)),
        seed: 1,
      })
      models.push({ device, base: inForce.model, sha256: await this.#keep(made.file) })
      changes.push(...made.changes.map((text) => (devices.size === 1 ? text : `${device}: ${text}`)))
    }
    if (models.length === 0)
      changes.push(`No model changes: no model has judged a flow of ${of.incident.slice(0, 8)}`)
    return { models, changes }
  }

  async #keep(file: Uint8Array): Promise<string> {
    const { files, folder } = this.#options
    const sha256 = createHash('sha256').update(file).digest('hex')
    if (folder !== null) await writeBytes(files, answerModelPath(folder, sha256), file)
    this.#models.set(sha256, decodeModelFile(file))
    return sha256
  }

  async removeUnused(answers: readonly Answer[]): Promise<void> {
    const { files, folder } = this.#options
    const used = new Set(answers.flatMap(({ models }) => models.map(({ sha256 }) => sha256)))
    for (const sha256 of [...this.#models.keys()]) {
      if (used.has(sha256)) continue
      this.#models.delete(sha256)
      if (folder !== null) await files.remove(answerModelPath(folder, sha256)).catch(() => undefined)
    }
  }

  /** Whether models of an answer are lost, or were made from a model that is no longer active. */
  isStale({ models, answer }: Answer): boolean {
    return (
      answer === 'normal' &&
      models.some(({ device, base, sha256 }) => {
        const inForce = this.#decider?.modelOf(device) ?? null
        return inForce !== null && (inForce.model !== base || !this.#models.has(sha256))
      })
    )
  }

  /** Whether a flow that is novel is normal by an answer that covers it. */
  isNormal(record: FlowRecord, { rule }: AgentVerdict): boolean {
    if (this.#overlays.size === 0) return false
    const { contact } = contactOfRecord(record, this.#options.localNetworks)
    // a flow of one packet may have no row: its service was stated to be normal
    return (this.#overlays.get(contact.device) ?? []).some(
      ({ contacts, judge }) =>
        contacts.some((each) => isSameContact(each, contact)) &&
        (rule === 'one-packet' || !judge(record).novel),
    )
  }
}

/** In the state folder. */
export function answerModelPath(folder: string, sha256: string): string {
  return join(folder, 'answers', `${sha256}.oddflow`)
}
