/**
 * Calibration: what a threshold for an alert budget needs of a network's normal flows: the lowest scores under one model, how
 * many there were, how long that took, and how many each device had. Kept as JSON in a file that `oddflow-agent calibrate`
 * made or in the state folder; everything read is checked.
 */
import { ArgumentError, FormatError } from '@oddflow/core'
import { createTailScoreCollector, type TailScores } from '@oddflow/detectors'
import { inFile, jsonLine, readFileBounded, writeFileWhole } from '@oddflow/program'

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
const KIND = 'oddflow-calibration'
const VERSION = 1
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

export function encodeCalibration(calibration: Calibration): Record<string, unknown> {
  const { model, scores, watchedMicros, flowsByDevice, onePacketNovel } = calibration
  return {
    kind: KIND,
    version: VERSION,
    model,
    flows: scores.count,
    watchedMicros,
    onePacketNovel,
    devices: [...flowsByDevice],
    lowestScores: [...scores.lowest],
  }
}

/** Throws FormatError that names the field. */
export function decodeCalibration(value: unknown): Calibration {
  const fail = (field: string, expected: string): never => {
    throw new FormatError('calibration', `${field}: expected ${expected}`, { field })
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return fail('file', 'an object')
  const { kind, version, model, flows, watchedMicros, onePacketNovel, devices, lowestScores } =
    value as Record<string, unknown>
  if (kind !== KIND) return fail('kind', `${KIND}; give a file that oddflow-agent calibrate wrote`)
  if (version !== VERSION) return fail('version', String(VERSION))
  if (typeof model !== 'string' || !/^[0-9a-f]{16}$/.test(model)) return fail('model', 'an id of a model')
  if (!isCount(flows)) return fail('flows', 'a whole number')
  if (!isCount(watchedMicros)) return fail('watchedMicros', 'a whole number')
  if (!isCount(onePacketNovel)) return fail('onePacketNovel', 'a whole number')
  if (!Array.isArray(devices) || devices.length > MAXIMUM_DEVICES) {
    return fail('devices', `at most ${MAXIMUM_DEVICES} devices`)
  }
  const flowsByDevice = new Map<string, number>()
  for (const entry of devices as unknown[]) {
    const [device, count] = Array.isArray(entry) ? (entry as unknown[]) : []
    if (typeof device !== 'string' || device.length > 64 || !isCount(count) || count > flows) {
      return fail('devices', 'pairs of a device and its number of flows')
    }
    flowsByDevice.set(device, count)
  }
  if (!Array.isArray(lowestScores) || !lowestScores.every((score) => typeof score === 'number')) {
    return fail('lowestScores', 'numbers')
  }
  const scores = { count: flows, lowest: Float64Array.from(lowestScores as number[]) }
  try {
    createTailScoreCollector(undefined, scores)
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error
    throw new FormatError('calibration', `lowestScores: ${error.detail}`, {
      field: 'lowestScores',
    })
  }
  return { model, scores, watchedMicros, flowsByDevice, onePacketNovel }
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

/** Calibration files: what `oddflow-agent calibrate` writes and `run` reads. */

/** A file of as many scores and devices as are kept is a tenth of it. */
const MAXIMUM_BYTES = 4 * 1_048_576

/** Throws FileError, or FormatError where it is none, or of another model than `model`. */
export function readCalibrationFile(path: string, model: string): Calibration {
  const bytes = readFileBounded(path, { maximumBytes: MAXIMUM_BYTES, onlyRegular: true })
  try {
    const calibration = decodeCalibration(parseJson(bytes))
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
  writeFileWhole(path, `${jsonLine(encodeCalibration(calibration))}\n`)
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes))
  } catch {
    throw new FormatError('calibration', 'expected JSON; give a file that oddflow-agent calibrate wrote')
  }
}
