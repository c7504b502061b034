/**
 * Readings as trials: what a machine measured of a model that another one trained. The trial is that of the machine
 * that trained it, with this one's description, test times and results, and no time of training. Readings of an
 * emulator or under a ceiling have no times to give and make no trials. Neither does a reading whose model, scores or
 * result are not those of the trial: what it timed was other work, and its AUC must not stand in a table.
 */
import { DataError } from '@oddflow/core'
import { checkTrial, type TestResult, type Trial, workKey } from '@oddflow/evaluation'
import { isEqualReading, isTimed, type Reading } from './reading.js'

/** `trials`: of the machine that trained, by which readings are told apart. Throws DataError for a reading of none. */
export function trialsOfReadings(readings: readonly Reading[], trials: readonly Trial[]): Trial[] {
  const trained = trainedByWork(trials)
  return readings.flatMap((reading): Trial[] => {
    const { work, outcome, machine } = reading
    if (work.kind === 'fit' || 'failure' in outcome || !isTimed(reading)) return []
    const trial = trained.get(workKey(work))
    if (trial === undefined) throw new DataError(`${workKey(work)}: no trial of a machine that trained it`)
    if (trial.dataSha256 !== work.dataSha256) {
      throw new DataError(`${workKey(work)}: the rows are not those of the trial (hashes differ)`)
    }
    if (trial.machine.name === reading.target) {
      if (reading.reach === 'local') return []
      throw new DataError(`${reading.target}: is the name of the machine that trained; give this one another`)
    }
    if (isEqualReading(reading) !== true || !isResultOf(trial, outcome.result)) return []
    return [
      checkTrial({
        ...trial,
        results: [outcome.result],
        trainMillis: null,
        tuneMillis: null,
        testRows: outcome.testRows,
        testMillis: outcome.testMillis,
        machine: {
          name: reading.target,
          cpu: machine.cpu,
          logicalCpus: machine.logicalCpus,
          memoryBytes: machine.memoryBytes,
          operatingSystem: machine.operatingSystem,
          architecture: machine.architecture,
          concurrency: 1,
        },
        loadAverage: reading.loadAverage,
        versions: { ...trial.versions, node: machine.node },
      }),
    ]
  })
}

/** The trials of machines that trained, by their work. */
export function trainedByWork(trials: readonly Trial[]): ReadonlyMap<string, Trial> {
  return new Map(
    trials.filter(({ trainMillis }) => trainMillis !== null).map((trial) => [workKey(trial), trial]),
  )
}

/** Whether a result is the trial's own of that test sample, to the last bit; a trial may have been given another. */
export function isResultOf(trial: Trial, result: TestResult | null): boolean {
  if (result === null) return false
  const { sample, auc, normal, novel } = result
  const own = trial.results.find((own) => own.sample === sample)
  return own === undefined || (own.auc === auc && own.normal === normal && own.novel === novel)
}
