/** Jobs of a reproduction on worker threads: results in the order of the jobs, whoever finishes first. */
import { Worker } from 'node:worker_threads'

/**
 * Posts each job to a worker of `file`, which answers with one message. `workerData` is what all workers know.
 */
export async function runJobs(file, jobs, workerData, workers) {
  const results = new Array(jobs.length)
  let next = 0
  let done = 0
  await Promise.all(
    Array.from({ length: Math.min(workers, jobs.length) }, () => {
      const worker = new Worker(file, { workerData })
      return new Promise((resolve, reject) => {
        let at = -1
        const give = () => {
          at = next++
          if (at < jobs.length) worker.postMessage(jobs[at])
          else worker.terminate().then(resolve, reject)
        }
        worker.on('error', reject)
        worker.on('message', (result) => {
          results[at] = result
          done++
          if (process.stderr.isTTY) process.stderr.write(`\r${done} of ${jobs.length}`)
          give()
        })
        give()
      })
    }),
  )
  return results
}
