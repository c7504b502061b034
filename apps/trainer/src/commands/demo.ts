/**
 * `oddflow demo`: learns from all normal captures but the last, then judges that one and the novel captures. In those, the
 * packets that the labels' filter selects are novel, and the traffic around them counts as normal.
 */

import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { FormatError, plural } from '@oddflow/core'
import type { SavedModel } from '@oddflow/detectors'
import { checkWritable, createLineWriter, printable, trainModel, writeFileWhole } from '@oddflow/program'
import { z } from 'zod'
import { recipeNamed, viewFrom } from '../flags.js'
import { PACKAGE_FOLDER, VERSION, withProgress } from '../inputs.js'
import { flowPlan } from '../pipeline/flow-plan.js'
import { captureInputs, filterFrom } from '../pipeline/read-packets.js'
import { readTrainingCaptures } from '../pipeline/training-captures.js'
import {
  describeEvaluation,
  type Evaluation,
  evaluateLabelled,
  type LabelledInput,
  reportData,
} from './evaluate.js'
import { describeModel, percent, promiseText } from './model-file.js'

/** Labels of the captures: in the published package under demo/, in a checkout among the test fixtures. */

const LABELS = z.object({
  captures: z.array(
    z.object({
      file: z.string().regex(/^[\w.-]+$/),
      label: z.enum(['normal', 'novel']),
      whatHappens: z.string(),
      novelWhen: z.string().nullish(),
    }),
  ),
})

type DemoCapture = z.infer<typeof LABELS>['captures'][number] & { readonly path: string }

function demoCaptures(): DemoCapture[] {
  const folder = ['demo', '../../test/fixtures/lab']
    .map((relative) => fileURLToPath(new URL(relative, PACKAGE_FOLDER)))
    .find((path) => existsSync(join(path, 'labels.json')))
  if (folder === undefined) {
    throw new FormatError(
      'demo',
      'the captures that come with OddFlow are missing; install the package again',
    )
  }
  const labels = LABELS.parse(JSON.parse(readFileSync(join(folder, 'labels.json'), 'utf8')))
  return labels.captures.map((capture) => ({ ...capture, path: join(folder, capture.file) }))
}

interface DemoCommandOptions {
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
  const out = createLineWriter()
  await withProgress(async (progress) => {
    const files = training.map(({ path }) => path)
    const reading = { filter: null, view, progress }
    const set = await readTrainingCaptures(
      captureInputs(files, false),
      flowPlan({}, recipe),
      detector.scaler,
      reading,
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
      explain: true,
    })
    progress.stop()
    const alarms = describeFalseAlarms(saved, evaluation)
    out.line(`\nJudged ${judged.map(({ file }) => file).join(', ')}:`)
    for (const line of describeEvaluation(evaluation)) out.line(`  ${line}`)
    out.line('\nFalse alarms:')
    for (const line of alarms) out.line(`  ${line}`)
    const { renderReport } = await import('../report/index.js')
    const page = renderReport(
      reportData(saved, evaluation, {
        title: 'OddFlow: what is new on this network',
        subtitle: 'A small home network, recorded from real programs',
        verdictLine: demoVerdict(evaluation),
        notes: [...judged.map(({ file, whatHappens }) => `${file}: ${whatHappens}`), ...alarms],
      }),
    )
    writeFileWhole(options.output, page)
    out.line(`\nReport: ${printable(resolve(options.output))}`)
    out.flush()
  })
}

const BESIDE = ' (usual traffic)'

type Judged = Evaluation['inputs'][number]

const isNovel = ({ label }: Judged): boolean => label === 'novel'
const isBeside = (input: Judged): boolean => !isNovel(input) && input.name.endsWith(BESIDE)
const isPlain = (input: Judged): boolean => !isNovel(input) && !isBeside(input)

function flaggedOf(
  { inputs }: Evaluation,
  isOf: (input: Judged) => boolean,
): { readonly text: string; readonly share: string } {
  const of = inputs.filter(isOf)
  const novel = of.reduce((sum, { counts }) => sum + counts.novel, 0)
  const total = of.reduce((sum, { counts }) => sum + counts.total, 0)
  return { text: `${novel} of ${plural(total, 'flow')}`, share: percent(novel / Math.max(1, total)) }
}

/** The report's first sentence. */
function demoVerdict(evaluation: Evaluation): string {
  const [novel, plain, beside] = [isNovel, isPlain, isBeside].map((isOf) => flaggedOf(evaluation, isOf).text)
  return `OddFlow flagged ${novel} of the attacks and changes as new; by mistake, ${plain} of the normal capture and ${beside} beside the attacks.`
}

/** What was promised, and what came of it in the normal capture and beside the attacks. */
function describeFalseAlarms({ threshold }: SavedModel, evaluation: Evaluation): string[] {
  const [plain, beside] = [flaggedOf(evaluation, isPlain), flaggedOf(evaluation, isBeside)]
  return [
    `expected: ${promiseText(threshold)}`,
    `in the normal capture: ${plain.text} flagged (${plain.share})`,
    `beside the attacks: ${beside.text} flagged (${beside.share}); they count as normal above, but differ from the training's, as the report says of each: most answers came some milliseconds later, and the short captures cut long connections`,
  ]
}

/** A novel capture is two inputs: the novelty, and the usual traffic around it. */
function labelledParts({ path, file, label, novelWhen }: DemoCapture): LabelledInput[] {
  const input = { files: [path], continuous: false }
  if (label === 'normal' || novelWhen === undefined || novelWhen === null) {
    return [{ ...input, label, filter: null, name: file }]
  }
  const [usual, novelty] = [filterFrom(`not (${novelWhen})`), filterFrom(novelWhen)]
  return [
    { ...input, label: 'normal', filter: usual, name: `${file}${BESIDE}` },
    { ...input, label: 'novel', filter: novelty, name: `${file} (the novelty)` },
  ]
}
