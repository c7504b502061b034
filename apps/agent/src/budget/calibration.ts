/**
 * Calibration: what a threshold for an alert budget needs of a network's normal flows: the lowest scores under one model, how
 * many there were, how long that took, and how many each device had. Kept as JSON in a file that `oddflow-agent calibrate`
 * made or in the state folder; everything read is checked.
 */
import { ArgumentError, FormatError } from '@oddflow/core'
import { createTailScoreCollector, type TailScores } from '@oddflow/detectors'
import { inFile, jsonLine, readFileBounded, writeFileWhole } from '@oddflow/program'
import * as v from 'valibot'
import { defineState } from '../files/state-file.js'

export interface Calibration {
  /** The model's id; scores of another mean nothing. */
  readonly model: string
  readonly scores: TailScores
  /** Time watched. */
  readonly watchedMicros: number
  /** Flows with a score by device, at most MAXIMUM_DEVICES; those of further ones are in the count alone. */
  readonly flowsByDevice: ReadonlyMap<string, number>
  /** Flows of one packet to a service that was new, which no score decides on. */
  readonly onePacketNovel: number
}

export const MAXIMUM_DEVICES = 4096
export const MICROS_PER_DAY = 86_400_000_000

export type Calibrator = ReturnType<typeof createCalibrator>

export function createCalibrator(model: string, earlier: Calibration | null = null) {
  const scores = createTailScoreCollector(undefined, earlier?.scores)
  const flowsByDevice = new Map(earlier?.flowsByDevice)
  let watchedMicros = earlier?.watchedMicros ?? 0
  let onePacketNovel = earlier?.onePacketNovel ?? 0
  return {
    addScore(score: number, device: string): void {
      scores.add(score)
      const flows = flowsByDevice.get(device)
      if (flows !== undefined) flowsByDevice.set(device, flows + 1)
      else if (flowsByDevice.size < MAXIMUM_DEVICES) flowsByDevice.set(device, 1)
    },
    addOnePacketNovel(): void {
      onePacketNovel++
    },
    addWatched(micros: number): void {
      if (micros > 0) watchedMicros += micros
    },
    snapshot: (): Calibration => ({
      model,
      scores: scores.snapshot(),
      watchedMicros,
      flowsByDevice: new Map(flowsByDevice),
      onePacketNovel,
    }),
    get flows(): number {
      return scores.count
    },
    get watchedMicros(): number {
      return watchedMicros
    },
  }
}

const whole = v.pipe(v.number(), v.safeInteger(), v.minValue(0))
export const CALIBRATION = defineState(
  'calibration',
  1,
  v.pipe(
    v.object({
      model: v.pipe(v.string(), v.regex(/^[0-9a-f]{16}$/)),
      flows: whole,
      watchedMicros: whole,
      onePacketNovel: whole,
      devices: v.pipe(
        v.array(v.tuple([v.pipe(v.string(), v.maxLength(64)), whole])),
        v.maxLength(MAXIMUM_DEVICES),
      ),
      lowestScores: v.array(v.number()),
    }),
    v.forward(
      v.check(
        ({ devices, flows }) => devices.every(([, count]) => count <= flows),
        'expected no device with more flows than there are',
      ),
      ['devices'],
    ),
    v.transform(({ flows, devices, lowestScores, ...others }): Calibration => {
      const scores = { count: flows, lowest: Float64Array.from(lowestScores) }
      try {
        createTailScoreCollector(undefined, scores)
      } catch (error) {
        if (!(error instanceof ArgumentError)) throw error
        throw new FormatError('calibration', `lowestScores: ${error.detail}`, { field: 'lowestScores' })
      }
      return { ...others, scores, flowsByDevice: new Map(devices) }
    }),
  ),
)

/** The fields of `CALIBRATION`. */
export function calibrationFields(calibration: Calibration): object {
  const { model, scores, watchedMicros, flowsByDevice, onePacketNovel } = calibration
  return {
    model,
    flows: scores.count,
    watchedMicros,
    onePacketNovel,
    devices: [...flowsByDevice],
    lowestScores: [...scores.lowest],
  }
}

/** Calibration files: what `oddflow-agent calibrate` writes and `run` reads. */

/** A file of as many scores and devices as are kept is a tenth of it. */
const MAXIMUM_BYTES = 4 * 1_048_576

/** Throws FileError, or FormatError where it is none, or of another model than `model`. */
export function readCalibrationFile(path: string, model: string): Calibration {
  const bytes = readFileBounded(path, { maximumBytes: MAXIMUM_BYTES, onlyRegular: true })
  try {
    const calibration = CALIBRATION.decode(parseJson(bytes))
    if (calibration.model === model) return calibration
    throw new FormatError(
      'calibration',
      `model: expected ${model}, found ${calibration.model}: scores of another model mean nothing; calibrate this one`,
      { field: 'model' },
    )
  } catch (error) {
    throw inFile(path, error)
  }
}

/** Throws FileError. */
export function writeCalibrationFile(path: string, calibration: Calibration): void {
  writeFileWhole(path, `${jsonLine(CALIBRATION.encode(calibrationFields(calibration)))}\n`)
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes))
  } catch {
    throw new FormatError('calibration', 'expected JSON; give a file that oddflow-agent calibrate wrote')
  }
}
