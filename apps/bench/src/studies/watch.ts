/** The devices of data/watch one by one: half of a device's captures train, the rest and other families are judged. */

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { createRng, type Rng, shuffleInPlace } from '@oddflow/core'
import type { CollectedFlows } from '@oddflow/flows'
import { InvalidArgumentError, Option } from 'commander'
import { z } from 'zod'
import { inFile, readShape, text } from '../files.js'
import { note } from '../output.js'
import { tableOf } from '../tables/table.js'
import {
  collectFlows,
  compare,
  DEFAULT_VARIANT,
  describeRecipe,
  judgeCaptures,
  type Recipe,
  trainOn,
  VARIANT_NAMES,
  variantNamed,
  wholeCapture,
} from './flows.js'
import {
  defineStudy,
  type Findings,
  findingsShape,
  mean,
  percent,
  sharesOfGroups,
  type Target,
  targetTable,
  three,
} from './study.js'

/** Captures of each device of another family that are judged, at most. */
const NOVEL_CAPTURES = 3
export const ORDER_OF_TIME = 'time'

const device = z.object({
  family: z.string(),
  watched: z.boolean(),
  mac: z.string().optional(),
  /** Of each capture, by its name: when it begins. */
  starts: z.record(z.string(), z.number()),
})
export type Devices = Readonly<Record<string, z.infer<typeof device>>>

const findings = z.strictObject({
  device: text,
  /** A seed, or "time". */
  order: text,
  ...findingsShape,
})
const figures = z.strictObject({ recipe: text, splits: z.array(findings).max(100_000) })
export type WatchFigures = z.infer<typeof figures>

interface WatchOptions {
  readonly seeds: readonly number[]
  readonly variant: string
}

export interface Split {
  readonly train: readonly string[]
  readonly normal: readonly string[]
  /** Captures of devices of other families, with their devices: "Device/capture". */
  readonly novel: readonly string[]
}

/** Of one watched device: captures as "Device/capture". `order`: a seed, or ORDER_OF_TIME. */
export function splitOf(devices: Devices, watched: string, order: number | typeof ORDER_OF_TIME): Split {
  const rng = createRng(order === ORDER_OF_TIME ? 1 : order).fork(watched)
  const own = capturesOf(devices, watched)
  const half = Math.floor(own.length / 2)
  const shuffled = permuted(own, rng.fork('captures'))
  const others = Object.keys(devices)
    .filter((name) => devices[name]!.family !== devices[watched]!.family)
    .sort()
  const novel = others.flatMap((name) =>
    permuted(capturesOf(devices, name), rng.fork(name)).slice(0, NOVEL_CAPTURES),
  )
  return order === ORDER_OF_TIME
    ? { train: own.slice(0, half), normal: own.slice(half), novel }
    : {
        train: shuffled.filter((_, i) => i % 2 === 0),
        normal: shuffled.filter((_, i) => i % 2 === 1),
        novel,
      }
}

function permuted<T>(values: readonly T[], rng: Rng): T[] {
  const order = shuffleInPlace(Uint32Array.from(values.keys()), rng)
  return Array.from(order, (i) => values[i]!)
}

/** In the order of time. */
function capturesOf(devices: Devices, name: string): string[] {
  const { starts } = devices[name]!
  return Object.keys(starts)
    .sort((a, b) => starts[a]! - starts[b]! || (a < b ? -1 : 1))
    .map((capture) => `${name}/${capture}`)
}

/** Only captures that are there. */
export function readDevices(folder: string): Devices {
  const devices = readShape(z.record(z.string(), device), join(folder, 'devices.json'), 'json')
  for (const [name, { starts }] of Object.entries(devices)) {
    const there = new Set(inFile(join(folder, name), () => readdirSync(join(folder, name))))
    for (const capture of Object.keys(starts)) if (!there.has(capture)) delete starts[capture]
  }
  return devices
}

/** Each device in each order. */
export async function measureWatch(
  folder: string,
  recipe: Recipe,
  seeds: readonly number[],
): Promise<WatchFigures['splits']> {
  const devices = readDevices(folder)
  const known = new Map<string, CollectedFlows>()
  const flowsOf = async (capture: string): Promise<CollectedFlows> => {
    const flows = known.get(capture) ?? (await collectFlows([wholeCapture(join(folder, capture))], recipe))
    known.set(capture, flows)
    return flows
  }
  const splits: WatchFigures['splits'] = []
  for (const order of [...seeds, ORDER_OF_TIME] as const) {
    const before = splits.length
    for (const name of Object.keys(devices).sort()) {
      if (!devices[name]!.watched) continue
      const { train, normal, novel } = splitOf(devices, name, order)
      const model = await trainOn(
        train.map((capture) => wholeCapture(join(folder, capture))),
        recipe,
        order === ORDER_OF_TIME ? 1 : order,
      )
      const judge = (captures: readonly string[]) => judgeCaptures(model, captures, flowsOf)
      splits.push({ device: name, order: String(order), ...compare(await judge(normal), await judge(novel)) })
    }
    note(`order ${order}: ${described(averageOf(splits.slice(before)))}`)
  }
  return splits
}

type Averages = Pick<Findings, 'auc' | 'found' | 'normalFlagged' | 'novelFlagged' | 'groups'>

/** Of figures of devices: each counts the same, whatever its flows. */
export function averageOf(splits: readonly Averages[]): Averages {
  const of = (figure: Exclude<keyof Averages, 'groups'>): number => mean(splits.map((split) => split[figure]))
  const groups = splits.flatMap((split) => split.groups ?? [])
  return {
    auc: of('auc'),
    found: of('found'),
    normalFlagged: of('normalFlagged'),
    novelFlagged: of('novelFlagged'),
    groups:
      groups.length < splits.length
        ? null
        : { normal: mean(groups.map((g) => g.normal)), novel: mean(groups.map((g) => g.novel)) },
  }
}

const described = ({ auc, found, normalFlagged, novelFlagged }: Averages): string =>
  `AUC ${three(auc)}, found ${percent(found)}; flagged: normal ${percent(normalFlagged)}, novel ${percent(novelFlagged)}`

export function randomOrders(splits: WatchFigures['splits']): WatchFigures['splits'] {
  return splits.filter(({ order }) => order !== ORDER_OF_TIME)
}

export function orderOfTime(splits: WatchFigures['splits']): WatchFigures['splits'] {
  return splits.filter(({ order }) => order === ORDER_OF_TIME)
}

/** The largest share of normal flows flagged of any device, in the mean of its orders. */
export function worstDevice(splits: WatchFigures['splits']): number {
  const devices = [...new Set(splits.map(({ device }) => device))]
  return Math.max(
    ...devices.map((name) => averageOf(splits.filter((split) => split.device === name)).normalFlagged),
  )
}

/** Measured once, on the captures and models of this page. */
const TRIED_GROUP_RULES = `A capture's score is the mean surprise of its flows, each at most 6 nats. The level is the largest score of a training
capture, and at least 1.9. Share of captures flagged, normal and novel:

| level | random orders | order of time |
| --- | --: | --: |
| largest of training | 7.5 %, 96.3 % | 24.5 %, 95.3 % |
| the same, at least 1.6 | 4.5 %, 96.3 % | 19.1 %, 95.3 % |
| **the same, at least 1.9** | 2.6 %, 96.3 % | 6.4 %, 95.1 % |
| the same, at least 2.0 | 2.3 %, 96.1 % | 2.7 %, 94.7 % |
| the same, at least 2.5 | 1.3 %, 93.2 % | 1.8 %, 93.0 % |
| largest times 1.2 | 2.6 %, 95.3 % | 20.9 %, 94.9 % |
| largest times 1.5 | 1.3 %, 90.7 % | 13.6 %, 92.7 % |
| mean of training and 2.5 standard deviations | 3.1 %, 95.7 % | 20.0 %, 95.1 % |
| largest; score: mean of the upper half | 7.3 %, 95.7 % | 22.7 %, 96.3 % |
| largest; score: mean of the upper quarter | 8.9 %, 93.6 % | 22.7 %, 93.5 % |
| largest; score: mean without the upper half | 8.0 %, 96.3 % | 30.9 %, 95.7 % |
| largest; score: share of flows beyond 2 nats | 6.0 %, 95.1 % | 20.9 %, 94.6 % |
| largest; score: share of flows beyond 4 nats | 6.7 %, 87.9 % | 9.1 %, 93.3 % |

Captures of many flows have nearly equal scores: D-LinkSwitch 0.85 to 1.21 in training. Its later captures have 1.63 to
2.16, since the device changed a little, and captures of other devices 4.34 or more. The largest training score flags all
later captures. The least level was chosen with each device left out in turn, as the highest one that costs the other ten
devices at most 0.4 points of novel captures in either column: 1.9 ten times, 2.0 once. With the level that was chosen
without it, a device has 2.5 % and 96.3 % in random orders, 6.4 % and 94.7 % in the order of time.
[A real week](week.md) has no flagged day of 13 with it and 5 without; [the pairs](attacks.md) keep all novel captures.`

function targetsOf(random: WatchFigures['splits'], time: WatchFigures['splits']): Target[] {
  const [r, t] = [averageOf(random), averageOf(time)]
  const ofGroups: Target[] =
    r.groups === null || t.groups === null
      ? []
      : [
          ['novel captures flagged, random orders', r.groups.novel, { least: 0.95 }, percent],
          ['normal captures flagged, random orders', r.groups.normal, { most: 0.09 }, percent],
          ['novel captures flagged, order of time', t.groups.novel, { least: 0.95 }, percent],
          ['normal captures flagged, order of time', t.groups.normal, { most: 0.2 }, percent],
        ]
  return [
    ['AUC, random orders', r.auc, { least: 0.95 }],
    ['AUC, order of time', t.auc, { least: 0.93 }],
    ['novel flows found at 1 % of normal ones, random orders', r.found, { least: 0.62 }, percent],
    ['normal flows flagged, random orders', r.normalFlagged, { most: 0.015 }, percent],
    ['normal flows flagged, order of time', t.normalFlagged, { most: 0.03 }, percent],
    ['normal flows flagged, worst device, random orders', worstDevice(random), { most: 0.05 }, percent],
    ['novel flows flagged, random orders', r.novelFlagged, { least: 0.6 }, percent],
    ['novel flows flagged, order of time', t.novelFlagged, { least: 0.6 }, percent],
    ...ofGroups,
  ]
}

function page({ recipe, splits }: WatchFigures): string {
  const random = randomOrders(splits)
  const time = orderOfTime(splits)
  const orders = [...new Set(random.map(({ order }) => order))]
  const names = [...new Set(splits.map(({ device }) => device))]
  const table = (title: string, rows: readonly string[], of: (row: string) => WatchFigures['splits']) =>
    tableOf(
      rows.map((name) => ({ name, ...averageOf(of(name)) })),
      1,
      [
        [title, ({ name }) => name],
        ['AUC', ({ auc }) => three(auc)],
        ['found at 1 %', ({ found }) => percent(found)],
        ['normal', ({ normalFlagged }) => percent(normalFlagged)],
        ['novel', ({ novelFlagged }) => percent(novelFlagged)],
        ['captures: normal, novel', ({ groups }) => sharesOfGroups(groups)],
      ],
    )
  return `Each of ${names.length} devices is watched alone. Half of its captures train a model; the other half and at most ${NOVEL_CAPTURES} captures of
each device of another family are judged by it. Random orders: seeds ${orders.join(', ')}, every other capture trains. Order of
time: the earlier half trains. A figure is the mean of devices, each with the same weight.

\`${recipe}\`

${targetTable(targetsOf(random, time))}

*Flagged* is at the model's own threshold, made from the training captures alone for 1 % of normal flows. Captures are flagged as
groups: \`oddflow score --group capture\`.

## Devices

Random orders, mean.

${table('device', names, (name) => random.filter(({ device }) => device === name))}

Order of time.

${table('device', names, (name) => time.filter(({ device }) => device === name))}

## Orders

${table('order', [...orders, ORDER_OF_TIME], (order) => splits.filter((s) => s.order === order))}

## The level of a capture

${TRIED_GROUP_RULES}`
}

export const watch = defineStudy<WatchOptions, WatchFigures>({
  name: 'watch',
  title: 'Devices watched one by one',
  description: 'how much traffic of other devices the default model flags, device by device (data/watch)',
  configure: (command) =>
    command
      .option(
        '--seeds <numbers>',
        'seeds, such as 1-10 or 1,2,5; for each seed the captures of a device are shuffled, half of them for training and half for testing',
        seedsFrom,
        seedsFrom('1-10'),
      )
      .addOption(
        new Option('--variant <name>', 'another detector or other timeouts; the page is printed, not written')
          .choices(VARIANT_NAMES)
          .default(DEFAULT_VARIANT),
      ),
  figures,
  isTrial: ({ variant }) => variant !== DEFAULT_VARIANT,
  async run({ data, seeds, variant }) {
    const recipe = variantNamed(variant)
    return {
      recipe: describeRecipe(recipe),
      splits: await measureWatch(join(data, 'watch'), recipe, seeds),
    }
  },
  page,
})

/** "1-3,7" → 1, 2, 3, 7. */
export function seedsFrom(text: string): number[] {
  const seeds = text.split(',').flatMap((part) => {
    const [, from, to = from] = /^(\d{1,6})(?:-(\d{1,6}))?$/.exec(part.trim()) ?? []
    if (from === undefined || Number(to) < Number(from) || Number(to) - Number(from) > 1000) {
      throw new InvalidArgumentError('expected numbers and ranges, as in 1-10 or 1,2,5')
    }
    return Array.from({ length: Number(to) - Number(from) + 1 }, (_, i) => Number(from) + i)
  })
  return [...new Set(seeds)]
}
