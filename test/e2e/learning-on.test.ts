/** Models that learn on, through the real program: update, drift, and the journal that repeats and undoes. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
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

beforeAll(() => trainLabModel(model))

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
    expect(inspected.stdout).toContain('learnt since')
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
    ['--half-life 100 --window 100', /--half-life and --window/],
    ['--assume-normal --confirm 3', /--confirm: with --assume-normal/],
    ['--assume-normal --novel hold', /--novel: with --assume-normal/],
    ['--novel learn --confirm 3', /--confirm: only rows on hold/],
    ['--confirm-rows 3', /--confirm-rows: needs --confirm/],
    ['--round-rows 0', /--round-rows: expected a whole number from 1/],
    ['--guard-lifted 2', /--guard-lifted: expected a number from 0 to 1/],
    ['--no-guard --guard-moved 0.5', /--guard-moved: does not apply with --no-guard/],
    ['--sketch keep --sketch-rows 3', /--sketch-rows: with --sketch keep/],
    ['--method 3', /--method.*1, 2/],
    ['--known-novel novel.pcap', /--known-novel novel.pcap: expected feature rows/],
  ])('refuses %s', async (flags, says) => {
    const args = ['update', model, normal, '-o', at('never.oddflow'), ...flags.split(' ')]
    await refuses(args, { code: 2, says, folder })
  })

  it('refuses a journal of another model, and one that is none', async () => {
    await succeeds(['update', model, normal, '-o', at('g.oddflow'), '--journal', at('g.jsonl')])
    const wrong = ['replay', at('g.oddflow'), at('g.jsonl'), '-o', at('never.oddflow')]
    await refuses(wrong, { code: 1, says: /g\.jsonl.*begins with the model/, folder })
    writeFileSync(at('none.jsonl'), '{"journal":1')
    const none = ['replay', model, at('none.jsonl'), '-o', at('never.oddflow')]
    await refuses(none, { code: 1, says: /none\.jsonl.*line 1/, folder })
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
