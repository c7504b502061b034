/** A real week of devices (data/week): three days train, later days are judged, and attacks of other networks. */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { DataError } from '@oddflow/core'
import { z } from 'zod'
import { count, inFile, list, share, text } from '../files.js'
import { note } from '../output.js'
import { fixed, markdownTable, tableOf } from '../tables/table.js'
import { labAttacks, readPair } from './attacks.js'
import {
  collectFlows,
  DEFAULT_VARIANT,
  describeRecipe,
  judgeFlows,
  type Recipe,
  trainOn,
  variantNamed,
  wholeCapture,
} from './flows.js'
import { defineStudy, mean, percent, targetTable } from './study.js'

const TRAINING_DAYS = 3
const FLOOD = 'dlinkhomehub_vs_synflood'
const SEED = 1

const figures = z.strictObject({
  recipe: text,
  devices: list({
    device: text,
    trainedFlows: count,
    days: list({
      day: text,
      flows: count,
      flagged: count,
      /** Whether the day is flagged as a group; null of a model without a level for captures. */
      group: z.boolean().nullable(),
    }),
    attacks: list({ attack: text, flows: count, flagged: share }),
  }),
})
export type WeekFigures = z.infer<typeof figures>

/** Captures of one device a day, in the order of days: day2 before day10. Days without a file are left out. */
export function daysOf(folder: string): string[] {
  const numberOf = (name: string): number => Number(/\d+/.exec(name)![0])
  return inFile(folder, () => readdirSync(folder))
    .filter((name) => /^day\d+\.pcap(ng)?(\.gz)?$/.test(name))
    .sort((a, b) => numberOf(a) - numberOf(b))
}

export async function measureWeek(data: string, recipe: Recipe): Promise<WeekFigures['devices']> {
  const week = join(data, 'week')
  const flood = join(data, 'pairs', FLOOD)
  if (!existsSync(flood)) note(`left out: ${flood} not found`)
  const kinds = [
    ...(existsSync(flood) ? [{ attack: 'SYN flood', captures: readPair(flood).novel }] : []),
    ...labAttacks().map(({ kind, attack }) => ({ attack: kind, captures: [attack] })),
  ]
  const attacks = []
  for (const { attack, captures } of kinds) {
    attacks.push({ attack, flows: await collectFlows(captures, recipe) })
  }
  const devices: WeekFigures['devices'] = []
  for (const device of inFile(week, () => readdirSync(week)).sort()) {
    const names = daysOf(join(week, device))
    if (names.length <= TRAINING_DAYS) {
      throw new DataError(
        `${join(week, device)}: expected more than ${TRAINING_DAYS} days, found ${names.length}`,
      )
    }
    const captures = names.map((name) => wholeCapture(join(week, device, name)))
    const model = await trainOn(captures.slice(0, TRAINING_DAYS), recipe, SEED)
    const days: WeekFigures['devices'][number]['days'] = []
    for (const [i, capture] of captures.entries()) {
      if (i < TRAINING_DAYS) continue
      const { judged, flagged, groups } = judgeFlows(model, await collectFlows([capture], recipe))
      const group = groups === null ? null : groups.flagged > 0
      days.push({ day: names[i]!.replace(/\..*$/, ''), flows: judged, flagged, group })
    }
    const measured = {
      device,
      trainedFlows: model.provenance.rows,
      days,
      attacks: attacks.map(({ attack, flows }) => {
        const { judged, flagged } = judgeFlows(model, flows)
        return { attack, flows: judged, flagged: flagged / judged }
      }),
    }
    devices.push(measured)
    const { rate, aDay } = falseAlarmsOf(measured)
    note(`${device}: ${percent(rate)} of later flows flagged, ${fixed(aDay, 1)} a day`)
  }
  return devices
}

/** Flagged flows of the days after training: their share of all, and how many a day. Days without a flow do not count. */
export function falseAlarmsOf({ days }: Pick<WeekFigures['devices'][number], 'days'>) {
  const sum = (of: 'flows' | 'flagged'): number => days.reduce((total, day) => total + day[of], 0)
  const counted = days.filter(({ flows }) => flows > 0).length
  return { rate: sum('flagged') / sum('flows'), aDay: sum('flagged') / counted }
}

export function summariseWeek(devices: WeekFigures['devices']) {
  const alarms = devices.map(falseAlarmsOf)
  const shares = devices.flatMap(({ attacks }) => attacks.map(({ flagged }) => flagged))
  return {
    rate: mean(alarms.map(({ rate }) => rate)),
    aDay: mean(alarms.map(({ aDay }) => aDay)),
    attacksMean: mean(shares),
    attacksLeast: Math.min(...shares),
  }
}

function page({ recipe, devices }: WeekFigures): string {
  const { rate, aDay, attacksMean, attacksLeast } = summariseWeek(devices)
  const kinds = devices[0]?.attacks.map(({ attack }) => attack) ?? []
  return `Each device's first ${TRAINING_DAYS} days train a model. The days after are judged by it, and so are attacks that were recorded in
other networks: a SYN flood (data/pairs) and those of [the traffic lab](../../tools/traffic-lab/README.md).

\`${recipe}\`

${targetTable([
  ['later flows flagged, mean of devices', rate, { most: 0.02 }, percent],
  ['flagged flows a day and device', aDay, { most: 2 }, (value) => fixed(value, 1)],
  ['attack flows flagged, mean of devices and attacks', attacksMean, { least: 0.8 }, percent],
  ['the least of any device and attack', attacksLeast, { least: 0.4 }, percent],
])}

## Days

Flagged flows of all flows of a day; *group*: days flagged as a whole (\`oddflow score --group capture\`), each a false alarm.

${tableOf(devices, 1, [
  ['device', ({ device }) => device],
  ['trained on', ({ trainedFlows }) => `${trainedFlows} flows`],
  ['flagged', (device) => percent(falseAlarmsOf(device).rate)],
  ['a day', (device) => fixed(falseAlarmsOf(device).aDay, 1)],
  ['days', ({ days }) => days.map(({ day, flows, flagged }) => `${day} ${flagged}/${flows}`).join(', ')],
  ['group', ({ days }) => groupsOf(days)],
])}

## Attacks

Share of their flows that each device's model flags.

${markdownTable(
  ['device', ...kinds],
  devices.map((device) => [device.device, ...device.attacks.map(({ flagged }) => percent(flagged))]),
  1,
)}`
}

function groupsOf(days: WeekFigures['devices'][number]['days']): string {
  const counted = days.filter(({ flows, group }) => flows > 0 && group !== null)
  const flagged = counted.filter(({ group }) => group === true)
  return counted.length === 0
    ? ''
    : `${flagged.length} of ${counted.length}${flagged.map(({ day }) => `, ${day}`).join('')}`
}

export const week = defineStudy<unknown, WeekFigures>({
  name: 'week',
  title: 'A real week',
  description:
    'train on three days of a device; count the flows flagged later and the attacks found (data/week)',
  figures,
  async run({ data }) {
    const recipe = variantNamed(DEFAULT_VARIANT)
    return { recipe: describeRecipe(recipe), devices: await measureWeek(data, recipe) }
  },
  page,
})
