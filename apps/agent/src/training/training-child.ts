/** The process that trains and learns on: one job, then it ends, and its memory with it. */
import process from 'node:process'
import { type TrainedRows, type TrainingJob, trainRows } from '../models/train.js'
import { type LearningJob, type LearntRows, learnOn } from '../models/update.js'
import type { TrainingAnswer } from './train-in-child.js'

process.once('message', (job: TrainingJob | LearningJob) => {
  process.send?.(answer(job), () => process.disconnect())
})

function answer(job: TrainingJob | LearningJob): TrainingAnswer<TrainedRows | LearntRows> {
  try {
    return { result: 'file' in job ? learnOn(job) : trainRows(job) }
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) }
  }
}
