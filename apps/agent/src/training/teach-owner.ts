/**
 * A round of learning on of an owner: the rows that its watched devices have shown (online-rows.ts) go to the thread
 * (learn-on.ts), and the model that follows is written to disk, then used.
 *
 * The model as it was trained stays on disk as the one before, through all rounds, so that a rollback goes to it. A round
 * that the guard had undone changes nothing, nor does one that fails; both are counted.
 */
import { createHash } from 'node:crypto'
import { decodeModelFile } from '@oddflow/detectors'
import type { Log } from '../log.js'
import type { LearningSettings } from '../settings.js'
import type { LearningJob, LearntRows } from './learn-on.js'
import type { OnlineReport, ShadowCounts } from './model-reports.js'
import type { ModelRecord, ModelStore } from './model-store.js'
import { createOnlineRows, type OnlineRows } from './online-rows.js'
import type { Owner, OwnerBook } from './owner-book.js'

export interface OwnerTeacherOptions {
  readonly learning: LearningSettings
  readonly dimension: number
  readonly maximumDevices: number
  readonly book: OwnerBook
  readonly store: ModelStore
  readonly learnOn: (job: LearningJob) => Promise<LearntRows>
  readonly seed: number
  readonly log: Log
}

export interface OwnerTeacher {
  readonly rows: OnlineRows
  /** Never rejects. */
  teach(of: Owner): Promise<void>
  report(shadow: ShadowCounts): OnlineReport
}

export function createOwnerTeacher(options: OwnerTeacherOptions): OwnerTeacher {
  const { book, store, dimension, maximumDevices, learning, log } = options
  const online = createOnlineRows({ ...learning, dimension, maximumDevices })
  const taught = { learnt: 0, heldBack: 0, disregarded: 0, refused: 0 }
  const rounds = { accepted: 0, refused: 0, failed: 0 }
  return {
    rows: online,
    async teach(of) {
      const { record } = of
      const rows = online.take(of.name)
      if (record === null) return
      try {
        const file = await store.readFile(record)
        const { shadowAgrees } = learning
        const learnt = await options.learnOn({ file, rows, shadowAgrees, seed: options.seed })
        // trained anew, or forgotten, meanwhile
        if (of.record !== record || book.get(of.name) !== of) return
        if (learnt.refused) {
          rounds.refused++
          taught.refused += rows.length / dimension
          return
        }
        const next: ModelRecord = {
          ...record,
          sha256: createHash('sha256').update(learnt.file).digest('hex'),
          previous: record.source === 'trained' ? record.sha256 : record.previous,
          source: 'learnt-on',
          rows: record.rows + learnt.learnt,
        }
        await store.write(next, learnt.file)
        book.putInForce(of, { saved: decodeModelFile(learnt.file), sha256: next.sha256 }, next)
        rounds.accepted++
        for (const key of ['learnt', 'heldBack', 'disregarded'] as const) taught[key] += learnt[key]
      } catch (error) {
        rounds.failed++
        log.warn(`${of.name}: nothing was learnt on: ${error instanceof Error ? error.message : error}`)
      }
    },
    report: (shadow) => ({
      rows: { ...taught, overBudget: online.overBudget, crowded: online.crowded },
      rounds: { ...rounds },
      shadow,
    }),
  }
}
