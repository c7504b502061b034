/** Models that learn on, through the real program: update, drift, and the journal that repeats and undoes. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { decodeModelFile, encodeModelFile } from '../../packages/detectors/src/index.js'
import { jsonLines, lab, refuses, succeeds, temporaryFolder, trainLabModel } from './support/oddflow.js'

interface UpdateLine {
  rows: number
  learnt: number
  heldBack: number
  held: number
  confirmed: number
  disregarded: number
  refused: number
  rounds: number
  refusedRounds: number
}

interface DriftLine {
  rows: number
  drifted: boolean
  findings: string[]
  novelShare: number
  shares: number[]
}

const folder = temporaryFolder()
const model = join(folder, 'home.oddflow')
const normal = lab('normal-4.pcap.gz').path
const flood = lab('novel-bruteforce.pcap.gz').path
const at = (name: string) => join(folder, name)

beforeAll(() => trainLabModel(model, ['--features', 'iat-size']))

describe('update', () => {
  it('learns from a capture, says what became of every row, and leaves the first model alone', async () => {
    const before = readFileSync(model)
    const run = await succeeds(['update', model, normal, '-o', at('a.oddflow'), '--format', 'json'])
    const [line] = jsonLines<UpdateLine>(run)
    const { rows, learnt, heldBack, held, disregarded, refused } = line!
    expect(rows).toBeGreaterThan(0)
    expect(learnt).toBeGreaterThan(0)
    expect(learnt + heldBack + held + disregarded + refused).toBe(rows)
    expect(readFileSync(model)).toEqual(before)
    const inspected = await succeeds(['inspect', at('a.oddflow')])
    expect(inspected.stdout).toContain('learned since')
    await succeeds(['score', at('a.oddflow'), normal, '--format', 'json'])
  })

  it('gives the same bytes again, from a journal too', async () => {
    await succeeds([
      'update',
      model,
      normal,
      '-o',
      at('b.oddflow'),
      '--assume-normal',
      '--journal',
      at('b.jsonl'),
    ])
    await succeeds(['update', model, normal, '-o', at('c.oddflow'), '--assume-normal'])
    expect(readFileSync(at('c.oddflow'))).toEqual(readFileSync(at('b.oddflow')))
    await succeeds(['replay', model, at('b.jsonl'), '-o', at('d.oddflow')])
    expect(readFileSync(at('d.oddflow'))).toEqual(readFileSync(at('b.oddflow')))
  })

  it('undoes by replaying less, and goes on in its own place', async () => {
    const none = await succeeds(['replay', model, at('b.jsonl'), '-o', at('e.oddflow'), '--steps', '0'])
    expect(none.stdout).toContain('after 0 steps')
    expect(readFileSync(at('e.oddflow'))).toEqual(readFileSync(model))
    await succeeds(['update', at('c.oddflow'), normal, '-o', at('c.oddflow'), '--assume-normal'])
    expect(readFileSync(at('c.oddflow'))).not.toEqual(readFileSync(at('b.oddflow')))
  })

  it('learns nothing of novelties that nobody vouches for', async () => {
    const run = await succeeds([
      'update',
      model,
      flood,
      '-o',
      at('f.oddflow'),
      '--novel',
      'disregard',
      '--format',
      'json',
    ])
    const [line] = jsonLines<UpdateLine>(run)
    expect(line!.disregarded).toBeGreaterThan(0)
    expect(line!.confirmed).toBe(0)
  })

  it.each([
    ['--assume-normal --confirm 3', /--confirm: with --assume-normal/],
    ['--assume-normal --novel hold', /--novel: with --assume-normal/],
    ['--novel learn --confirm 3', /--confirm: only rows on hold/],
    ['--confirm 0', /--confirm: expected a whole number from 1/],
    ['--half-life 0', /--half-life: expected/],
    ['--no-guard --known-novel novel.npy', /--known-novel: does not apply with --no-guard/],
    ['--assume-normal --shadow-agrees', /--shadow-agrees: does not apply with --assume-normal/],
    ['--method 3', /--method.*1, 2/],
    ['--known-novel novel.pcap', /--known-novel novel.pcap: expected feature rows/],
  ])('refuses %s', async (flags, says) => {
    const args = ['update', model, normal, '-o', at('never.oddflow'), ...flags.split(' ')]
    await refuses(args, { code: 2, says, folder })
  })

  it('says that the guard stays off, and turns it on again', async () => {
    await succeeds(['update', model, normal, '-o', at('off.oddflow'), '--no-guard'])
    const again = await succeeds(['update', at('off.oddflow'), normal, '-o', at('off2.oddflow')])
    expect(again.stderr).toContain('the guard is off')
    expect((await succeeds(['inspect', at('off2.oddflow')])).stdout).toContain('the guard, which is off')
    const on = await succeeds(['update', at('off2.oddflow'), normal, '-o', at('on.oddflow'), '--defaults'])
    expect(on.stderr).not.toContain('the guard is off')
  })

  it('gives the reason when it undoes a round', async () => {
    await succeeds(['extract', flood, '--model', model, '-o', at('novel.npy')])
    const out = at('why.oddflow')
    const known = ['--assume-normal', '--known-novel', at('novel.npy'), '--format', 'json']
    const run = await succeeds(['update', model, flood, '-o', out, ...known])
    const [line] = jsonLines<{
      roundReports: { refused: boolean; noveltyLoss: number; falsePositiveRise: number }[]
    }>(run)
    const refused = line!.roundReports.filter((round) => round.refused)
    expect(refused.length).toBeGreaterThan(0)
    expect(run.stderr.includes('rows that must stay novel')).toBe(
      refused.some(({ noveltyLoss }) => noveltyLoss > 0.02),
    )
    expect(run.stderr.includes('rows known to be normal')).toBe(
      refused.some(({ falsePositiveRise }) => falsePositiveRise > 0.1),
    )
  })

  it('leaves a journal that is there alone', async () => {
    const args = ['update', model, normal, '-o', at('never.oddflow'), '--journal', at('b.jsonl')]
    await refuses(args, { code: 2, says: /--journal .*b\.jsonl: exists already/, folder })
  })

  it.each([
    ['an empty journal', () => '', [], /empty/],
    ['more steps than there are', (text: string) => text, ['--steps', '99'], /expected 99 steps or more/],
    ['a missing step', (text: string) => lineGone(text, 1), [], /line 2, step: expected step 1, found 2/],
    [
      'a count that is not so',
      (text: string) => text.replace(/"learnt":(\d+)/, '"learnt":1$1'),
      [],
      /line 2, learnt/,
    ],
    [
      'checksums taken out',
      (text: string) => text.replace(/"model":"[0-9a-f]+"}$/gm, '"model":null}'),
      [],
      /checksum/,
    ],
  ] as const)('refuses %s', async (_, change, flags, says) => {
    writeFileSync(at('changed.jsonl'), change(readFileSync(at('b.jsonl'), 'utf8')))
    const args = ['replay', model, at('changed.jsonl'), '-o', at('never.oddflow'), ...flags]
    await refuses(args, { code: 1, says, folder })
  })

  it('refuses a journal of another model, and one that is none', async () => {
    await succeeds(['update', model, normal, '-o', at('g.oddflow'), '--journal', at('g.jsonl')])
    const wrong = ['replay', at('g.oddflow'), at('g.jsonl'), '-o', at('never.oddflow')]
    await refuses(wrong, { code: 1, says: /g\.jsonl.*begins with the model/, folder })
    writeFileSync(at('none.jsonl'), '{"journal":1')
    const none = ['replay', model, at('none.jsonl'), '-o', at('never.oddflow')]
    await refuses(none, { code: 1, says: /none\.jsonl.*line 1/, folder })
  })

  it('refuses a forged state of earlier updates, and says where it is', async () => {
    const saved = decodeModelFile(readFileSync(at('b.oddflow')))
    saved.learned!.tensors['learned.statistics.masses']!.data[0] = -1
    writeFileSync(at('forged.oddflow'), encodeModelFile(saved))
    const says = /forged\.oddflow: .*learned\.statistics\.masses: expected .* found -1 \(byte \d{4,}\)/
    await refuses(['inspect', at('forged.oddflow')], { code: 1, says, folder })
    const update = ['update', at('forged.oddflow'), normal, '-o', at('never.oddflow')]
    await refuses(update, { code: 1, says, folder })
  })
})

describe('drift', () => {
  it('is found in what is new, and counts every row', async () => {
    const novel = await succeeds(['drift', model, flood, '--format', 'json'])
    const [aged] = jsonLines<DriftLine>(novel)
    expect(aged!.drifted).toBe(true)
    expect(aged!.findings.length).toBeGreaterThan(0)
    expect(aged!.shares.reduce((a, b) => a + b, 0)).toBeCloseTo(1, 9)
    const same = await succeeds(['drift', model, normal, '--format', 'json'])
    expect(jsonLines<DriftLine>(same)[0]!.novelShare).toBeLessThan(aged!.novelShare)
  })
})

function lineGone(text: string, line: number): string {
  return text
    .split('\n')
    .filter((_, i) => i !== line)
    .join('\n')
}
