/**
 * `oddflow-agent calibrate`: scores captures of normal traffic, and writes the data for an alert budget's threshold.
 *
 * The captures must not be those of the training, which the model scores higher than future flows. The time of a capture is from its
 * first packet to its last.
 */
import { compileFilter, describeDamage, packetCheckWarnings } from '@oddflow/capture'
import { openCapture } from '@oddflow/capture/node'
import { DataError } from '@oddflow/core'
import type { BudgetThreshold, Threshold } from '@oddflow/detectors'
import {
  checkWritable,
  createMessages,
  deviceKeyOf,
  jsonLine,
  type Network,
  PRIVATE_NETWORKS,
  parseNetwork,
  printable,
  readModelFile,
} from '@oddflow/program'
import {
  type Calibration,
  type Calibrator,
  createCalibrator,
  MICROS_PER_DAY,
  writeCalibrationFile,
} from '../budget/calibration.js'
import { budgetThresholds, ownThresholds, refusalText, type Thresholds } from '../budget/thresholds.js'
import { inFlag } from '../config/settings-from.js'
import { createModelDecider } from '../pipeline/counters.js'
import { BATCH_FRAMES, createWatcher } from '../pipeline/watcher.js'

export interface CalibrateOptions {
  readonly model: string
  readonly output: string
  readonly filter?: string
  readonly dropDuplicates?: boolean
  readonly localNetwork?: readonly string[]
  readonly falseAlertsPerDay: number
  readonly format: 'text' | 'json'
}

const FLOW_BYTES = 64 * 1_048_576

export async function calibrate(captures: readonly string[], options: CalibrateOptions): Promise<void> {
  const networks = inFlag('--local-network', () =>
    (options.localNetwork ?? PRIVATE_NETWORKS).map((text) => parseNetwork(text)),
  )
  const { filter: words } = options
  const filter = words === undefined ? null : inFlag('--filter', () => compileFilter(words))
  checkWritable(options.output, [options.model, ...captures])
  const { saved, sha256 } = readModelFile(options.model)
  const calibrator = createCalibrator(sha256.slice(0, 16))
  const messages = createMessages('oddflow-agent')
  for (const capture of captures) {
    const source = openCapture(capture, { batchFrames: BATCH_FRAMES })
    const span = { first: Number.POSITIVE_INFINITY, last: Number.NEGATIVE_INFINITY }
    const watcher = createWatcher({
      decider: createModelDecider(
        saved,
        sha256.slice(0, 16),
        collecting(calibrator, networks, saved.threshold),
        networks,
      ),
      filter,
      dropDuplicates: options.dropDuplicates === true,
      memoryBytes: FLOW_BYTES,
      hashSeed: 1,
      onNovel() {},
    })
    for await (const frames of source) {
      for (let i = 0; i < frames.count; i++) {
        const micros = frames.timestampMicros[i]
        if (micros < span.first) span.first = micros
        if (micros > span.last) span.last = micros
      }
      watcher.add(frames)
    }
    while (watcher.finish(4096)) {
      // flows end a few at a time
    }
    calibrator.addWatched(span.last - span.first)
    for (const { text } of packetCheckWarnings(watcher.check, '--drop-duplicates')) {
      messages.warn(`${capture}: ${text}`)
    }
    const { end } = source
    if (end !== null && (end.truncated || end.error !== null)) {
      messages.warn(describeDamage(capture, end))
    }
  }
  const calibration = calibrator.snapshot()
  if (calibration.scores.count === 0) {
    throw new DataError('no flow with a score in these captures; give captures of normal traffic')
  }
  writeCalibrationFile(options.output, calibration)
  const findings = describe(calibration, options.falseAlertsPerDay)
  process.stdout.write(options.format === 'json' ? `${jsonLine(findings)}\n` : textOf(findings))
}

/** Adds every score as that of a normal flow. */
function collecting(
  calibrator: Calibrator,
  networks: readonly Network[],
  modelThreshold: Threshold,
): Thresholds {
  return {
    ...ownThresholds,
    judge(record, score) {
      calibrator.addScore(score, deviceKeyOf(record, networks))
      return modelThreshold.value
    },
    noteOnePacketNovel: () => calibrator.addOnePacketNovel(),
  }
}

interface Support {
  readonly flowsPerDay: number | null
  readonly threshold: BudgetThreshold | null
  /** Why there is none. */
  readonly refused: string | null
}

function describe(calibration: Calibration, falseAlertsPerDay: number) {
  const support = (per: 'device' | 'network'): Support => {
    try {
      const decided = budgetThresholds({ falseAlertsPerDay, per }, calibration)
      if (decided.thresholds !== null) {
        const { flowsPerDay, strictest } = decided.thresholds
        return { flowsPerDay, threshold: strictest, refused: null }
      }
      const { refusal, flowsPerDay } = decided
      return {
        flowsPerDay,
        threshold: null,
        refused: refusalText(refusal, calibration.scores.count, flowsPerDay, { per }),
      }
    } catch (error) {
      if (!(error instanceof DataError)) throw error
      return { flowsPerDay: null, threshold: null, refused: error.message }
    }
  }
  return {
    model: calibration.model,
    flows: calibration.scores.count,
    days: calibration.watchedMicros / MICROS_PER_DAY,
    devices: calibration.flowsByDevice.size,
    onePacketNovel: calibration.onePacketNovel,
    falseAlertsPerDay,
    device: support('device'),
    network: support('network'),
  }
}

function textOf(findings: ReturnType<typeof describe>): string {
  const { flows, days, devices, onePacketNovel, falseAlertsPerDay } = findings
  const lines = [
    `flows           ${flows} in ${days.toPrecision(3)} days, of ${devices} devices`,
    `not covered     ${onePacketNovel} flows of one packet to a new service`,
    ...(['device', 'network'] as const).map((per) => {
      const { threshold, refused } = findings[per]
      const budget = `${falseAlertsPerDay} a day${per === 'device' ? ' and device' : ''}`
      if (threshold === null) return `per ${per.padEnd(11)} ${budget}: refused: ${refused}`
      const { method, value, interval } = threshold
      const rates = `${interval.low.toPrecision(2)} to ${interval.high.toPrecision(2)}`
      return `per ${per.padEnd(11)} ${budget}: threshold ${value} (${method}; share of flows ${rates})`
    }),
  ]
  return lines.map((line) => `${printable(line)}\n`).join('')
}
