/** Cost of the default beside OC-KJL on the same flow summaries. Rows of one device, drawn again with small changes. */

import { join } from 'node:path'
import { createMatrix, createRng, type Matrix } from '@oddflow/core'
import { createScoreWorkspace, encodeModelFile, type SavedModel, scoreSamples } from '@oddflow/detectors'
import type { TrainingSet } from '@oddflow/program'
import { z } from 'zod'
import { count } from '../files.js'
import { note } from '../output.js'
import { processorSeconds } from '../run/machine.js'
import { fixed } from '../tables/table.js'
import {
  collectFlows,
  DEFAULT_VARIANT,
  trainingSet,
  trainOnSet,
  variantNamed,
  wholeCapture,
} from './flows.js'
import { defineStudy, median, targetTable } from './study.js'
import { readDevices, splitOf } from './watch.js'

const DEVICE = 'HueBridge'
const FIT_ROWS = 5000
const LARGE_FIT_ROWS = 1_000_000
const BATCH_ROWS = 1000
const ROUNDS = 41
const FITS = 5
/** Of standard deviations of a column's logarithms. */
const CHANGE = 0.01

const figures = z.strictObject({
  /** Medians of rounds in turn. */
  scoreNanos: z.number().positive(),
  kjlNanos: z.number().positive(),
  modelBytes: count,
  kjlBytes: count,
  fitMillis: z.number().positive(),
  large: z.strictObject({
    rows: count,
    seconds: z.number().positive(),
    processorSeconds: z.number().positive(),
    peakBytes: count,
  }),
})
type CostFigures = z.infer<typeof figures>

function drawn(set: TrainingSet, rows: number): TrainingSet {
  const { cols, data } = set.rows
  const rng = createRng(1).fork(`${rows} rows`)
  const out = createMatrix(rows, cols)
  const inputOfRow = new Uint32Array(rows)
  for (let i = 0; i < rows; i++) {
    const from = rng.nextBelow(set.rows.rows)
    // the service, the last column, stays
    for (let j = 0; j < cols; j++) {
      out.data[i * cols + j] = data[from * cols + j]! + (j < cols - 1 ? CHANGE * rng.nextNormal() : 0)
    }
    inputOfRow[i] = set.inputOfRow[from]!
  }
  const { deviceOfRow: _, ...rest } = set
  return { ...rest, rows: out, inputOfRow }
}

function trained(set: TrainingSet, detector: 'ensemble' | 'oc-kjl'): SavedModel {
  const scaler = detector === 'oc-kjl' ? 'standard' : 'none'
  return trainOnSet({ ...set, contract: { ...set.contract, scaler } }, { detector, scaler }, 1)
}

function timeScores(models: readonly SavedModel[], rows: Matrix): number[] {
  const out = new Float64Array(rows.rows)
  const workspaces = models.map(({ detector }) => createScoreWorkspace(detector))
  const nanos = models.map((): number[] => [])
  for (let round = 0; round < ROUNDS; round++) {
    for (const [k, { detector }] of models.entries()) {
      const before = process.hrtime.bigint()
      scoreSamples(detector, rows, out, workspaces[k]!)
      nanos[k]!.push(Number(process.hrtime.bigint() - before) / rows.rows)
    }
  }
  return nanos.map(median)
}

async function measureCost(folder: string): Promise<CostFigures> {
  const recipe = variantNamed(DEFAULT_VARIANT)
  const { train, normal } = splitOf(readDevices(folder), DEVICE, 1)
  const captures = [...train, ...normal].map((capture) => wholeCapture(join(folder, capture)))
  const set = trainingSet(await collectFlows(captures, recipe), recipe)
  const large = drawn(set, LARGE_FIT_ROWS)
  const cpu = process.cpuUsage()
  const began = performance.now()
  trained(large, 'ensemble')
  const seconds = (performance.now() - began) / 1000
  const processorTime = processorSeconds(cpu)
  const peakBytes = 1024 * process.resourceUsage().maxRSS
  note(`${LARGE_FIT_ROWS} rows fitted in ${fixed(seconds, 1)} s`)
  const some = drawn(set, FIT_ROWS)
  const fits = Array.from({ length: FITS }, () => {
    const before = performance.now()
    trained(some, 'ensemble')
    return performance.now() - before
  })
  const models = [trained(some, 'ensemble'), trained(some, 'oc-kjl')]
  const [scoreNanos, kjlNanos] = timeScores(models, drawn(set, BATCH_ROWS).rows)
  const [modelBytes, kjlBytes] = models.map((model) => encodeModelFile(model).length)
  return {
    scoreNanos: scoreNanos!,
    kjlNanos: kjlNanos!,
    modelBytes: modelBytes!,
    kjlBytes: kjlBytes!,
    fitMillis: median(fits),
    large: { rows: LARGE_FIT_ROWS, seconds, processorSeconds: processorTime, peakBytes },
  }
}

function page({ scoreNanos, kjlNanos, modelBytes, kjlBytes, fitMillis, large }: CostFigures): string {
  const seconds = (value: number): string => `${fixed(value, 2)} s`
  const kilobytes = (value: number): string => `${fixed(value / 1000, 1)} kB`
  const megabytes = (value: number): string => `${fixed(value / 1e6, 0)} MB`
  return `The default detector beside OC-KJL (m = 100, d = 5, float64, standardised) on flow summaries of one device of data/watch.
Where more rows are asked for than the device has, rows are drawn again with small changes.

\`\`\`
ensemble ${fixed(scoreNanos, 0)} ns a row, OC-KJL ${fixed(kjlNanos, 0)} ns a row, batches of ${BATCH_ROWS}, medians of ${ROUNDS} rounds in turn
ensemble ${modelBytes} bytes, OC-KJL ${kjlBytes} bytes
\`\`\`

${targetTable([
  ['time of a score, times that of OC-KJL', scoreNanos / kjlNanos, { most: 2 }, (v) => fixed(v, 2)],
  ['size of the model', modelBytes, { most: 40_000 }, kilobytes],
  [`fit of ${FIT_ROWS} rows, median of ${FITS}`, fitMillis / 1000, { most: 1 }, seconds],
  [`fit of ${large.rows} rows`, large.seconds, { most: 60 }, seconds],
  ['memory of the process at most, its rows included', large.peakBytes, { most: 1e9 }, megabytes],
])}

The fit of ${large.rows} rows took ${seconds(large.processorSeconds)} of processor time.`
}

export const cost = defineStudy<unknown, CostFigures>({
  name: 'cost',
  title: 'What the default costs',
  description: 'time of a score, size of a model, and time and memory of a fit, compared with OC-KJL',
  figures,
  run: ({ data }) => measureCost(join(data, 'watch')),
  page,
})
