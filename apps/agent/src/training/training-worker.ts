/** The thread that trains: one job, then it ends, and its memory with it. */
import { serveJobs } from '@oddflow/program'
import { type TrainedRows, type TrainingJob, trainRows } from './train-rows.js'

serveJobs<TrainingJob, TrainedRows>(() => (job, say) => say(trainRows(job)))
