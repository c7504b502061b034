/**
 * Flows that a person answered as normal → a model that finds them normal. It judges only flows with the same peers and services
 * (incidents/answers.ts). Runs in a separate process.
 *
 * The update is that of `oddflow update --assume-normal`. It is refused if too many of the rows stay novel, too many normal rows become
 * novel, the guard undoes it, a row of an attack becomes normal, or a kind of synthetic attack is no longer flagged at any size.
 */
import { ArgumentError, DataError, type Matrix, matrixOf, plural } from '@oddflow/core'
import {
  decodeModelFile,
  encodeModelFile,
  novelRows,
  rememberedRows,
  type SavedModel,
} from '@oddflow/detectors'
import { createOnlineUpdater, updateEnsemble } from '@oddflow/online'
import { type DetectionLimit, findDetectionLimits, hashRows, limitSizeText } from '@oddflow/program'

export interface AcceptJob {
  /** The active model, as a file. */
  readonly accept: Uint8Array
  /** n × D, row-major: answered as normal. */
  readonly rows: Float64Array
  /** Rows of other incidents of the device. */
  readonly others: Float64Array
  /** Rows answered as an attack. */
  readonly attacks: Float64Array
  readonly seed: number
}

export interface AcceptedRows {
  /** A model file. */
  readonly file: Uint8Array
  /** Its changes, in sentences. */
  readonly changes: readonly string[]
}

/** Rows are repeated up to this number: each copy is held out in turn and supported by the others. */
const LEAST_ROWS = 20
const LEAST_COPIES = 2
/** The online updater keeps one row in five from learning, and ends a round after this number. */
const LEARNER_ROWS = 100
/** As in `oddflow update`. */
const MOST_NOVEL_SHARE = 0.05
const MOST_FORGOTTEN_SHARE = 0.05
/** A detection limit that grows by more is reported. */
const LATER = 2

/** Throws DataError that says why there is no such model. */
export function acceptRows({ accept, rows, others, attacks, seed }: AcceptJob): AcceptedRows {
  const before = decodeModelFile(accept)
  const { dimension } = before.detector.fitReport
  const matrix = (data: Float64Array): Matrix => matrixOf(data.length / dimension, dimension, data)
  const given = matrix(rows)
  const after = updated(before, given, seed)
  const { remembered, forgotten, text } = changedFlows(before, after, given, matrix(others))
  const stillNovel = countNovel(after, given)
  if (stillNovel > MOST_NOVEL_SHARE * given.rows)
    throw new DataError(`${stillNovel} of ${plural(given.rows, 'flow')} would stay unusual`)
  if (forgotten > MOST_FORGOTTEN_SHARE * remembered)
    throw new DataError(`${forgotten} of ${remembered} usual flows would become unusual`)
  const attack = matrix(attacks)
  const passed = attack.rows - countNovel(after, attack)
  if (passed > 0)
    throw new DataError(
      `${passed} of ${plural(attack.rows, 'flow')} that you answered as an attack would be normal; remove that answer first if it was wrong`,
    )
  const [from, to] = [findDetectionLimits(before).limits, findDetectionLimits(after).limits]
  const lost = to.filter(({ smallest }, i) => smallest === null && from[i].smallest !== null)
  if (lost.length > 0)
    throw new DataError(
      `nothing was changed, because the model would no longer notice these synthetic attacks of any size: ${lost.map(({ attack: { title } }) => title).join('; ')}`,
    )
  return {
    file: encodeModelFile(after),
    changes: [text, ...to.flatMap((limit, i) => laterText(from[i], limit))],
  }
}

function updated(before: SavedModel, given: Matrix, seed: number): SavedModel {
  if (before.detector.kind === 'ensemble') {
    const rows = copiesOf(given, Math.max(LEAST_COPIES, Math.ceil(LEAST_ROWS / given.rows)))
    const inputs = Uint32Array.from({ length: rows.rows }, (_, i) => Math.floor(i / given.rows))
    return updateEnsemble(before, { rows, inputs, dataSha256: hashRows(rows) }).saved
  }
  const learner = withinReach(() => createOnlineUpdater(before, { seed }))
  const rows = copiesOf(given, Math.ceil(LEARNER_ROWS / given.rows))
  const { rounds } = learner.arrive(rows, { assumeNormal: true })
  const last = learner.endRound()
  if ([...rounds, ...(last === null ? [] : [last])].some(({ refused }) => refused))
    throw new DataError('the guard refused the update: too many novel rows would become normal')
  const { learned: _, ...saved } = learner.saved()
  return saved
}

function copiesOf({ rows, cols, data }: Matrix, copies: number): Matrix {
  const all = new Float64Array(copies * data.length)
  for (let copy = 0; copy < copies; copy++) all.set(data, copy * data.length)
  return matrixOf(copies * rows, cols, all)
}

function withinReach<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error
    throw new DataError(`this kind of model cannot be updated (${error.message})`)
  }
}

function changedFlows(before: SavedModel, after: SavedModel, given: Matrix, others: Matrix) {
  const usual = rememberedRows(before.detector) ?? matrixOf(0, given.cols, new Float64Array(0))
  const [ofGiven, ofUsual, ofOthers] = [given, usual, others].map((rows) => {
    const was = novelRows(before, rows)
    const changed = novelRows(after, rows).filter((novel, i) => novel !== was[i])
    return { count: changed.length, nowNovel: changed.filter((novel) => novel).length }
  })
  const total = given.rows + usual.rows + others.rows
  const ofOtherIncidents = others.rows === 0 ? '' : `, ${ofOthers.count} of ${others.rows} of other incidents`
  return {
    remembered: usual.rows,
    forgotten: ofUsual.nowNovel,
    text: `${ofGiven.count + ofUsual.count + ofOthers.count} of ${total} earlier flows change verdict: ${ofGiven.count} of ${given.rows} of this incident, ${ofUsual.count} of ${usual.rows} usual ones${ofOtherIncidents}`,
  }
}

const countNovel = (saved: SavedModel, rows: Matrix): number =>
  rows.rows === 0 ? 0 : novelRows(saved, rows).filter((novel) => novel).length

function laterText(
  before: DetectionLimit,
  { attack, smallest, isConnectionNovel }: DetectionLimit,
): string[] {
  if (before.smallest === null || smallest === null || before.isConnectionNovel || isConnectionNovel)
    return []
  return smallest > LATER * before.smallest
    ? [
        `${attack.title} is noticed from ${limitSizeText(attack, smallest)} on (before: ${limitSizeText(attack, before.smallest)})`,
      ]
    : []
}
