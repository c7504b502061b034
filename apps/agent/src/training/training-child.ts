/** The process that runs one job: a training, an update, an update by an answer, or a search for detection limits. */
import process from 'node:process'
import { type AcceptedRows, type AcceptJob, acceptRows } from '../models/accept-rows.js'
import { type Noticed, type NoticeJob, noticedBy } from '../models/noticed.js'
import { type TrainedRows, type TrainingJob, trainRows } from '../models/train.js'
import { type LearningJob, type LearntRows, learnOn } from '../models/update.js'
import type { TrainingAnswer } from './train-in-child.js'

process.once('message', (job: Job) => {
  process.send?.(answer(job), () => process.disconnect())
})

type Job = TrainingJob | LearningJob | AcceptJob | NoticeJob

function answer(job: Job): TrainingAnswer<TrainedRows | LearntRows | AcceptedRows | Noticed[]> {
  try {
    if ('notice' in job) return { result: noticedBy(job) }
    if ('accept' in job) return { result: acceptRows(job) }
    return { result: 'file' in job ? learnOn(job) : trainRows(job) }
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) }
  }
}
