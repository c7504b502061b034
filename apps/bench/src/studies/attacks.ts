/** Attacks of the traffic lab (trained on normal-1 to -3, judged on normal-4), and the pairs of data/pairs. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { count, list, packagePath, readShape, share, text } from '../files.js'
import { note } from '../output.js'
import { fixed, tableOf } from '../tables/table.js'
import {
  type Capture,
  collectFlows,
  compare,
  DEFAULT_VARIANT,
  describeRecipe,
  judgeCaptures,
  judgeFlows,
  type Recipe,
  secondsToFirstFlag,
  trainOn,
  variantNamed,
  wholeCapture,
} from './flows.js'
import { defineStudy, findingsShape, mean, percent, sharesOfGroups, targetTable, three } from './study.js'

export const LAB = packagePath('../../test/fixtures/lab')
const PAIR_NAMES = [
  'aecho_shop_vs_fridge_dishwasher',
  'dlinkhomehub_vs_synflood',
  'huebridge_vs_wemolink',
] as const
const SEED = 1

const labels = z.object({
  devices: z.array(z.object({ name: z.string(), mac: z.string() })),
  captures: z.array(
    z.object({ file: z.string(), label: z.enum(['normal', 'novel']), novelWhen: z.string().optional() }),
  ),
})

/** "scan", "bruteforce", …, with its packets alone, as labels.json of the lab says which are novel. */
export function labAttacks() {
  const { captures } = readShape(labels, join(LAB, 'labels.json'), 'json')
  return captures.flatMap(({ file, novelWhen }) =>
    novelWhen === undefined
      ? []
      : {
          kind: file.replace(/^novel-/, '').replace(/\..*$/, ''),
          attack: { path: join(LAB, file), filter: novelWhen },
        },
  )
}

/** Six bytes. */
export function labMac(name: string): Buffer {
  const { devices } = readShape(labels, join(LAB, 'labels.json'), 'json')
  return Buffer.from(devices.find((device) => device.name === name)!.mac.replaceAll(':', ''), 'hex')
}

export function labNormal(): Capture[] {
  const { captures } = readShape(labels, join(LAB, 'labels.json'), 'json')
  return captures.filter(({ label }) => label === 'normal').map(({ file }) => wholeCapture(join(LAB, file)))
}

const side = z.object({
  files: z.array(z.object({ file: z.string() })),
  filter: z.object({ ip: z.union([z.string(), z.array(z.string())]).optional() }),
})
const pairManifest = z.object({
  normal: side,
  novel: side,
  baseline: z
    .object({
      auc_mean_std_by_quantile: z.record(
        z.string(),
        z.tuple([z.number(), z.number()]).transform(([mean]) => mean),
      ),
    })
    .optional(),
})

/** Those of the pairs that a folder holds; says which it does not. */
export function pairsIn(folder: string, names: readonly string[] = PAIR_NAMES): string[] {
  return names.filter((pair) => {
    const isThere = existsSync(join(folder, pair))
    if (!isThere) note(`left out: ${join(folder, pair)} not found`)
    return isThere
  })
}

/** Normal captures whose number in their name is odd train; the even ones are judged. */
export function readPair(folder: string) {
  const { normal, novel, baseline } = readShape(pairManifest, join(folder, 'manifest.json'), 'json')
  const capturesOf = ({ files, filter: { ip } }: z.infer<typeof side>): Capture[] => {
    const hosts = ip === undefined ? null : [ip].flat().map((address) => `host ${address}`)
    return files.map(({ file }) => ({
      path: join(folder, file),
      filter: hosts === null ? null : hosts.join(' or '),
    }))
  }
  const numberOf = ({ path }: Capture): number => Number(/(\d+)(?:-STA)?\.pcap/.exec(path)?.[1] ?? 0)
  const own = capturesOf(normal)
  return {
    train: own.filter((capture) => numberOf(capture) % 2 === 1),
    normal: own.filter((capture) => numberOf(capture) % 2 === 0),
    novel: capturesOf(novel),
    /** AUC of an OCSVM made elsewhere, by bandwidth quantile; null where there is none. */
    baseline: baseline?.auc_mean_std_by_quantile ?? null,
  }
}

const figures = z.strictObject({
  recipe: text,
  lab: z.strictObject({
    normalFlows: count,
    normalFlagged: share,
    attacks: list({
      kind: text,
      flows: count,
      flagged: share,
      /** null where nothing was flagged. */
      seconds: z.number().nullable(),
    }),
  }),
  pairs: list({
    pair: text,
    ...findingsShape,
  }),
})
export type AttackFigures = z.infer<typeof figures>

export async function measureLab(recipe: Recipe): Promise<AttackFigures['lab']> {
  const normal = labNormal()
  const model = await trainOn(normal.slice(0, -1), recipe, SEED)
  const last = judgeFlows(model, await collectFlows(normal.slice(-1), recipe))
  const attacks: AttackFigures['lab']['attacks'] = []
  for (const { kind, attack } of labAttacks()) {
    const { judged, flagged } = judgeFlows(model, await collectFlows([attack], recipe))
    const seconds = await secondsToFirstFlag(model, attack)
    attacks.push({ kind, flows: judged, flagged: flagged / judged, seconds })
    note(`lab, ${kind}: ${flagged} of ${judged} flows flagged`)
  }
  return { normalFlows: last.judged, normalFlagged: last.flagged / last.judged, attacks }
}

export async function measurePairs(folder: string, recipe: Recipe): Promise<AttackFigures['pairs']> {
  const pairs: AttackFigures['pairs'] = []
  for (const pair of pairsIn(folder)) {
    const { train, normal, novel } = readPair(join(folder, pair))
    const model = await trainOn(train, recipe, SEED)
    const judge = (captures: readonly Capture[]) =>
      judgeCaptures(model, captures, (capture) => collectFlows([capture], recipe))
    const findings = { pair, ...compare(await judge(normal), await judge(novel)) }
    pairs.push(findings)
    note(`${pair}: ${percent(findings.novelFlagged)} of novel flows flagged`)
  }
  return pairs
}

function page({ recipe, lab, pairs }: AttackFigures): string {
  return `\`${recipe}\`

## The traffic lab

Trained on normal-1 to normal-3 of [the captures of the repository](../../tools/traffic-lab/README.md), judged on normal-4 and on the flows of each
attack. Seconds are packet time from the attack's first packet to the first flagged verdict, for a watcher that looks at its
flows once a second.

${targetTable([
  [
    'attack flows flagged, mean of kinds',
    mean(lab.attacks.map(({ flagged }) => flagged)),
    { least: 0.7 },
    percent,
  ],
  [`flows of normal-4 flagged (of ${lab.normalFlows})`, lab.normalFlagged, { most: 0.015 }, percent],
])}

${tableOf(lab.attacks, 1, [
  ['attack', ({ kind }) => kind],
  ['flows', ({ flows }) => `${flows}`],
  ['flagged', ({ flagged }) => percent(flagged)],
  ['seconds to the first flag', ({ seconds }) => (seconds === null ? 'none' : fixed(seconds, 1))],
])}

## The capture pairs

Three pairs of real captures. Normal captures of odd number train; those of even number and all novel ones are judged.

${tableOf(pairs, 1, [
  ['pair', ({ pair }) => pair],
  ['normal flows', ({ normalFlows }) => `${normalFlows}`],
  ['novel flows', ({ novelFlows }) => `${novelFlows}`],
  ['AUC', ({ auc }) => three(auc)],
  ['found at 1 %', ({ found }) => percent(found)],
  ['flagged: normal', ({ normalFlagged }) => percent(normalFlagged)],
  ['novel', ({ novelFlagged }) => percent(novelFlagged)],
  ['captures: normal, novel', ({ groups }) => sharesOfGroups(groups)],
])}

*Flagged* is at the model's own threshold, made from the training captures alone for 1 % of normal flows.`
}

export const attacks = defineStudy<unknown, AttackFigures>({
  name: 'attacks',
  title: "The lab's attacks and the capture pairs",
  description:
    "which of the lab's attacks the default model finds and how soon, and what it finds in pairs of a normal and a novel capture (data/pairs)",
  figures,
  async run({ data }) {
    const recipe = variantNamed(DEFAULT_VARIANT)
    return {
      recipe: describeRecipe(recipe),
      lab: await measureLab(recipe),
      pairs: await measurePairs(join(data, 'pairs'), recipe),
    }
  },
  page,
})
