/**
 * `oddflow demo`: the main job on captures that come with OddFlow. Learns from all normal captures but the
 * last, then judges that one and the captures in which something new happens. In those, the packets that the
 * labels' filter selects are the novelty, and the devices' usual traffic around it counts as normal.
 */

import { resolve } from 'node:path'
import { checkWritable, createLineWriter, printable, trainModel, writeFileWhole } from '@oddflow/program'
import { createProgress } from '@oddflow/program/progress'
import { viewFrom } from '../capture-flags.js'
import { describeModel } from '../output/describe-model.js'
import { type DemoCapture, demoCaptures } from '../pipeline/demo-captures.js'
import { evaluateLabelled, type LabelledInput } from '../pipeline/evaluate-labelled.js'
import { flowPlan } from '../pipeline/flow-plan.js'
import { captureInputs, filterFrom } from '../pipeline/read-packets.js'
import { reportData } from '../pipeline/report-data.js'
import { readTrainingCaptures } from '../pipeline/training-captures.js'
import { recipeNamed } from '../recipes.js'
import { VERSION } from '../version.js'
import { describeEvaluation } from './evaluate.js'

export interface DemoCommandOptions {
  readonly output: string
  readonly seed: number
}

export async function demo(options: DemoCommandOptions): Promise<void> {
  checkWritable(options.output)
  const captures = demoCaptures()
  const normal = captures.filter(({ label }) => label === 'normal')
  const training = normal.slice(0, -1)
  const judged = [...normal.slice(-1), ...captures.filter(({ label }) => label === 'novel')]
  const recipe = recipeNamed('default')
  const detector = { detector: recipe.detector, scaler: recipe.scaler } as const
  const view = viewFrom({})
  const progress = createProgress()
  const out = createLineWriter()
  try {
    const set = await readTrainingCaptures(
      captureInputs(
        training.map(({ path }) => path),
        false,
      ),
      flowPlan({}, recipe),
      detector.scaler,
      { filter: null, view, progress },
    )
    const { saved } = trainModel(set, {
      detector,
      falsePositiveRate: 0.01,
      calibrationShare: 0.2,
      seed: options.seed,
      oddflowVersion: VERSION,
    })
    out.line(`Learned from ${training.map(({ file }) => file).join(', ')}:`)
    for (const line of describeModel(saved)) out.line(line)
    out.flush()
    const evaluation = await evaluateLabelled(saved, judged.flatMap(labelledParts), {
      view,
      progress,
    })
    progress.stop()
    out.line('')
    out.line(`Judged ${judged.map(({ file }) => file).join(', ')}:`)
    for (const line of describeEvaluation(evaluation)) out.line(`  ${line}`)
    const { renderReport } = await import('../report/index.js')
    const page = renderReport(
      reportData(saved, evaluation, {
        title: 'OddFlow: what is new on this network',
        subtitle: 'A small home network, recorded from real programs',
        notes: judged.map(({ file, whatHappens }) => `${file}: ${whatHappens}`),
      }),
    )
    writeFileWhole(options.output, page)
    out.line('')
    out.line(`Report: ${printable(resolve(options.output))}`)
    out.flush()
  } finally {
    progress.stop()
  }
}

/** A novel capture is two inputs: the novelty, and the usual traffic around it. */
function labelledParts({ path, file, label, novelWhen }: DemoCapture): LabelledInput[] {
  const input = { files: [path], continuous: false }
  if (label === 'normal' || novelWhen === undefined || novelWhen === null) {
    return [{ ...input, label, filter: null, name: file }]
  }
  const [usual, novelty] = [filterFrom(`not (${novelWhen})`), filterFrom(novelWhen)]
  return [
    { ...input, label: 'normal', filter: usual, name: `${file} (usual traffic)` },
    { ...input, label: 'novel', filter: novelty, name: `${file} (the novelty)` },
  ]
}
