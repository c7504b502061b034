/** Updates of the default: a model of half the training captures, updated with the rest, beside a model of all. */

import { join } from 'node:path'
import { encodeModelFile, type SavedModel } from '@oddflow/detectors'
import { updateEnsemble } from '@oddflow/online'
import { hashRows } from '@oddflow/program'
import { z } from 'zod'
import { count, share, text } from '../files.js'
import { note } from '../output.js'
import { tableOf } from '../tables/table.js'
import {
  collectFlows,
  compare,
  DEFAULT_VARIANT,
  describeRecipe,
  judgeCaptures,
  trainingSet,
  trainOn,
  variantNamed,
  wholeCapture,
} from './flows.js'
import {
  defineStudy,
  type Findings,
  findingsShape,
  mean,
  percent,
  targetTable,
  three,
  unique,
} from './study.js'
import { ORDER_OF_TIME, readDevices, splitOf } from './watch.js'

const ORDERS = [1, 2, 3, ORDER_OF_TIME] as const
/** What `oddflow update` allows of the given rows to stay novel. */
const MOST_NOVEL_SHARE = 0.05

const split = z.strictObject({
  device: text,
  order: text,
  /** Of the first captures, that one updated with the others, and one of all. */
  before: z.strictObject(findingsShape),
  updated: z.strictObject(findingsShape),
  all: z.strictObject(findingsShape),
  given: count,
  /** Shares of the given rows that are normal to the model before and after. */
  normalBefore: share,
  normalAfter: share,
  bytesBefore: count,
  /** After ten updates with the given rows' captures in turn. */
  bytesAfterTen: count,
})
const figures = z.strictObject({ recipe: text, splits: z.array(split).max(100_000) })
type UpdatesFigures = z.infer<typeof figures>

async function measureUpdates(folder: string): Promise<UpdatesFigures['splits'][number][]> {
  const recipe = variantNamed(DEFAULT_VARIANT)
  const devices = readDevices(folder)
  const paths = (captures: readonly string[]) =>
    captures.map((capture) => wholeCapture(join(folder, capture)))
  const flowsOf = (captures: readonly string[]) => collectFlows(paths(captures), recipe)
  const splits: UpdatesFigures['splits'] = []
  for (const order of ORDERS) {
    for (const device of Object.keys(devices).sort()) {
      if (!devices[device]!.watched) continue
      const { train, normal, novel } = splitOf(devices, device, order)
      const half = Math.ceil(train.length / 2)
      const [first, rest] = [train.slice(0, half), train.slice(half)]
      const seed = order === ORDER_OF_TIME ? 1 : order
      const before = await trainOn(paths(first), recipe, seed)
      const all = await trainOn(paths(train), recipe, seed)
      const given = await givenRows(await flowsOf(rest), recipe)
      const updated = updateEnsemble(before, given)
      let tenth: SavedModel = before
      for (let i = 0; i < 10; i++) {
        const capture = rest[i % rest.length]!
        const rows = await givenRows(await flowsOf([capture]), recipe)
        if (rows.rows.rows >= 10) tenth = updateEnsemble(tenth, rows).saved
      }
      const judge = async (model: SavedModel): Promise<Findings> => {
        const judged = (captures: readonly string[]) =>
          judgeCaptures(model, captures, (capture) => flowsOf([capture]))
        return compare(await judged(normal), await judged(novel))
      }
      const rows = given.rows.rows
      splits.push({
        device,
        order: String(order),
        before: await judge(before),
        updated: await judge(updated.saved),
        all: await judge(all),
        given: rows,
        normalBefore: 1 - updated.novelBefore / rows,
        normalAfter: 1 - updated.novelAfter / rows,
        bytesBefore: encodeModelFile(before).length,
        bytesAfterTen: encodeModelFile(tenth).length,
      })
    }
    const done = splits.filter((one) => one.order === String(order))
    note(`order ${order}: AUC ${three(mean(done.map(({ updated }) => updated.auc)))}`)
  }
  return splits
}

async function givenRows(
  flows: Parameters<typeof trainingSet>[0],
  recipe: Parameters<typeof trainingSet>[1],
): Promise<Parameters<typeof updateEnsemble>[1]> {
  const { rows, inputOfRow, deviceOfRow } = trainingSet(flows, recipe)
  return {
    rows,
    inputs: inputOfRow,
    dataSha256: hashRows(rows),
    ...(deviceOfRow === undefined ? {} : { devices: deviceOfRow }),
  }
}

function page({ recipe, splits }: UpdatesFigures): string {
  const behind = splits.map(({ updated, all }) => all.auc - updated.auc)
  const taken = splits.filter(({ normalAfter }) => normalAfter >= 1 - MOST_NOVEL_SHARE)
  const largest = Math.max(...splits.map(({ bytesAfterTen }) => bytesAfterTen))
  const of = (key: 'before' | 'updated' | 'all', figure: keyof Findings, among = splits): number =>
    mean(among.map((one) => one[key][figure] as number))
  const devices = unique(splits.map(({ device }) => device)).map(
    (name) => [name, splits.filter(({ device }) => device === name)] as const,
  )
  return `Each of ${devices.length} devices of data/watch, in the orders ${ORDERS.join(', ')} of [watch.md](watch.md). The first half of its training
captures trains a model. The other half updates that model with \`--assume-normal\`. A third model trains on all training
captures. All three judge the same captures.

\`${recipe}\`

${targetTable([
  ['AUC below that of training on all, mean', mean(behind), { most: 0.03 }],
  [
    'given rows that are normal afterwards, mean',
    mean(splits.map((one) => one.normalAfter)),
    { least: 0.95 },
    percent,
  ],
])}

${splits.length - taken.length} of ${splits.length} updates leave less than 95 % of the given rows normal: \`oddflow update\` refuses those, writes nothing and exits
with 1. The largest model after ten updates has ${largest} bytes; before them the largest has ${Math.max(...splits.map(({ bytesBefore }) => bytesBefore))}. Its size is bounded by the number of
landmarks and of tables, whatever the model learns.

${tableOf(['before', 'updated', 'all'] as const, 1, [
  ['mean', (key) => ({ before: 'first half', updated: 'first half, updated', all: 'all' })[key]],
  ['AUC', (key) => three(of(key, 'auc'))],
  ['found at 1 %', (key) => percent(of(key, 'found'))],
  ['normal flagged', (key) => percent(of(key, 'normalFlagged'))],
  ['novel flagged', (key) => percent(of(key, 'novelFlagged'))],
])}

${tableOf(devices, 1, [
  ['device', ([name]) => name],
  ['AUC: before', ([, own]) => three(of('before', 'auc', own))],
  ['updated', ([, own]) => three(of('updated', 'auc', own))],
  ['all', ([, own]) => three(of('all', 'auc', own))],
  ['given rows normal: before', ([, own]) => percent(mean(own.map((one) => one.normalBefore)))],
  ['after', ([, own]) => percent(mean(own.map((one) => one.normalAfter)))],
  ['normal flagged: updated', ([, own]) => percent(of('updated', 'normalFlagged', own))],
  ['all', ([, own]) => percent(of('all', 'normalFlagged', own))],
])}`
}

export const updates = defineStudy<object, UpdatesFigures>({
  name: 'updates',
  title: 'Updates of the default',
  description: 'compares a model of all captures with one that learned half of them by updates (data/watch)',
  figures,
  run: async ({ data }) => ({
    recipe: describeRecipe(variantNamed(DEFAULT_VARIANT)),
    splits: await measureUpdates(join(data, 'watch')),
  }),
  page,
})
