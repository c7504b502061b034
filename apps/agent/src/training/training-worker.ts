/** The thread that trains and learns on: one job, then it ends, and its memory with it. */
import { serveJobs } from '@oddflow/program'
import { type TrainedRows, type TrainingJob, trainRows } from '../models/train.js'
import { type LearningJob, type LearntRows, learnOn } from '../models/update.js'

serveJobs<TrainingJob | LearningJob, TrainedRows | LearntRows>(
  () => (job, say) => say('file' in job ? learnOn(job) : trainRows(job)),
)
