/** Flow summaries under the ensemble: attacks of the lab, and odd flows among the training's. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { jsonLines, lab, oddflow, succeeds, temporaryFolder, trainLabModel } from './support/oddflow.js'
import { cases, NO_EVIDENCE } from './support/shared.js'

const folder = temporaryFolder()
const OPTIONS = ['--features', 'flow-summary', '--detector', 'ensemble']

async function novelShare(model: string, capture: string): Promise<number> {
  const flows = jsonLines<{ novel: boolean }>(await succeeds(['score', model, capture, '--format', 'json']))
  return flows.filter(({ novel }) => novel).length / flows.length
}

describe('an ensemble of the lab', () => {
  const model = join(folder, 'lab.oddflow')
  let said = ''
  beforeAll(async () => {
    const inputs = ['normal-1.pcap', 'normal-2.pcapng', 'normal-3.pcap.gz'].map((name) => lab(name).path)
    said = (await succeeds(['train', ...inputs, ...OPTIONS, '-o', model])).stdout
  })

  it('holds each input out in turn, and is small', () => {
    expect(said).toMatch(
      /calibrated by +\d+ rows: 3 inputs held out in turn; \d+ flagged \(worst input: [\d.]+ %\)/,
    )
    expect(Number(/: (\d+) bytes/.exec(said)?.[1])).toBeLessThan(40_000)
  })

  it('says why in the words of the flow, in text, JSON and CSV alike', async () => {
    const capture = lab('novel-bruteforce.pcap.gz').path
    const args = [
      'score',
      model,
      capture,
      '--novel-only',
      '--explain',
      '--filter',
      'host 192.168.50.66 and port 22',
    ]
    const flows = jsonLines<{ novel: boolean; reasons: string[]; rarity: { atMost: number; flows: number } }>(
      await succeeds([...args, '--format', 'json']),
    )
    expect(flows).toHaveLength(5)
    for (const { reasons, rarity } of flows) {
      expect(reasons.length).toBeGreaterThanOrEqual(1)
      expect(reasons.length).toBeLessThanOrEqual(3)
      expect(reasons).toContain('never saw this service (TCP port 22)')
      expect(rarity.atMost).toBeLessThan(0.01)
    }
    const text = (await succeeds(args)).stdout.split('\n')
    const csv = (await succeeds([...args, '--format', 'csv'])).stdout
    flows.forEach(({ reasons, rarity }, i) => {
      expect(text[2 * i + 2]).toContain(`         ${reasons.join('; ')}; rarer than 1 flow in `)
      expect(csv).toContain(`${reasons.join('; ')},${rarity.atMost}`)
    })
    const group = await oddflow(['score', model, capture, '--explain', '--group', 'capture'])
    expect(group).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/--explain: explains flows and rows/),
    })
  })

  it('states which way scores point, of flows and of groups', async () => {
    const capture = lab('normal-4.pcap.gz').path
    expect((await succeeds(['score', model, capture])).stderr).toMatch(
      /novel: a score of -[\d.]+ or lower; the lower, the more unusual/,
    )
    expect((await succeeds(['score', model, capture, '--group', 'capture'])).stderr).toMatch(
      /novel: a capture with a score above [\d.]+, .*the higher, the more unusual/,
    )
  })

  it('is shown by inspect with how its threshold was calibrated, as by train', async () => {
    const line = /calibrated by .*/.exec(said)![0]
    expect((await succeeds(['inspect', model])).stdout).toContain(line)
  })

  it('finds attacks, and little in a capture of normal traffic to come', async () => {
    expect(await novelShare(model, lab('normal-4.pcap.gz').path)).toBeLessThan(0.03)
    for (const name of ['novel-scan.pcap', 'novel-bruteforce.pcap.gz', 'novel-dnstunnel.pcap.gz']) {
      // these captures have normal traffic beside the attack
      expect(await novelShare(model, lab(name).path), name).toBeGreaterThan(0.05)
    }
  })
})

it('trains on one capture with a warning that groups have no level', async () => {
  const model = join(folder, 'one.oddflow')
  const { path } = lab('normal-1.pcap')
  const { stderr } = await succeeds(['train', path, '-o', model])
  expect(stderr).toMatch(
    /warning: .*normal-1\.pcap: one input, so score --group capture has no other .*; train on two or more/,
  )
  expect(await oddflow(['score', model, path, '--group', 'capture'])).toMatchObject({ code: 2 })
})

it('promises one figure where rows are too few for the rate asked for', async () => {
  const model = join(folder, 'rare.oddflow')
  const run = await succeeds(['train', lab('normal-1.pcap').path, '-o', model, '--fpr', '1e-6'])
  const figures = [
    ...`${run.stdout}${run.stderr}`.matchAll(/about ([\d.]+) % false alarms on traffic like/g),
  ].map(([, x]) => x)
  expect(figures.length).toBe(2)
  expect(new Set(figures).size).toBe(1)
  expect(run.stderr).toMatch(/--fpr 0\.000001 needs 999999 calibration rows, there are \d+: expect about/)
})

describe('rows of extract --recipe default', () => {
  const rows = (name: string, extension = 'csv') => join(folder, `${name}.${extension}`)
  const inputs = ['normal-1.pcap', 'normal-2.pcapng', 'normal-3.pcap.gz']
  beforeAll(async () => {
    for (const name of [...inputs, 'novel-bruteforce.pcap.gz']) {
      await succeeds(['extract', lab(name).path, '--recipe', 'default', '-o', rows(name)])
    }
  })

  it('train the model that the captures train: by service, with the scores of the flows', async () => {
    const model = join(folder, 'rows.oddflow')
    const { stdout, stderr } = await succeeds(['train', ...inputs.map((name) => rows(name)), '-o', model])
    expect(stdout).toMatch(/detector +ensemble\n/)
    expect(stdout).toMatch(/128 landmarks of 6 services\n/)
    expect(stdout).toMatch(/services +column 20: compared as equal or different/)
    expect(stderr).not.toMatch(/looks like/)
    const captures = join(folder, 'captures.oddflow')
    await trainLabModel(captures)
    const novel = 'novel-bruteforce.pcap.gz'
    const scores = async (args: string[]) =>
      jsonLines<{ score: number; reasons: string[] }>(
        await succeeds([...args, '--format', 'json', '--explain']),
      )
    const ofRows = await scores(['score', model, rows(novel)])
    const ofFlows = await scores(['score', captures, lab(novel).path])
    expect(ofRows.map(({ score }) => score).sort()).toEqual(ofFlows.map(({ score }) => score).sort())
    expect(ofRows.flatMap(({ reasons }) => reasons)).toContain('service 600022 was never seen')
  })

  it('warn where a file has no names for them', async () => {
    await succeeds(['extract', lab('normal-1.pcap').path, '--recipe', 'default', '-o', rows('bare', 'npy')])
    const { stderr } = await succeeds(['train', rows('bare', 'npy'), '-o', join(folder, 'bare.oddflow')])
    expect(stderr).toMatch(/bare\.npy: its last column looks like the service of flow summaries/)
  })
})

describe('an update of an ensemble', () => {
  const model = join(folder, 'first.oddflow')
  const updated = join(folder, 'second.oddflow')
  const more = lab('normal-3.pcap.gz').path
  beforeAll(async () => {
    const inputs = ['normal-1.pcap', 'normal-2.pcapng'].map((name) => lab(name).path)
    await succeeds(['train', ...inputs, '-o', model])
  })

  it('learns what it is told is normal, and keeps what it would notice', async () => {
    const args = ['update', model, more, '--assume-normal', '--format', 'json', '-o', updated]
    const said = JSON.parse((await succeeds(args)).stdout)
    expect(said.novelAfter).toBeLessThanOrEqual(0.05 * said.rows)
    expect(said.learnt + said.odd).toBe(said.rows)
    expect(said.bytes).toBe(statSync(updated).size)
    expect(said.bytes).toBeLessThan(40_000)
    expect(await novelShare(updated, lab('normal-4.pcap.gz').path)).toBeLessThan(0.03)
    expect(await novelShare(updated, lab('novel-scan.pcap').path)).toBeGreaterThan(0.05)
    await succeeds(['score', updated, more, '--group', 'device', '--format', 'json'])
  })

  it('warns where much of what it learns was novel before', async () => {
    const args = ['update', model, lab('novel-scan.pcap').path, '--assume-normal', '-o', updated]
    const { stdout, stderr } = await succeeds(args)
    expect(stderr).toMatch(/warning: 3\d\d of 467 rows \(7\d\.\d+ %\) were novel before/)
    // the attack by name, and what the model would still notice
    expect(stderr).toMatch(
      /warning: no longer found, since the model learned them as normal: .*a scan of \d\d ports of 192\.168\.50\.23 by 192\.168\.50\.66/,
    )
    expect(stdout).toMatch(/detection limits: .*, before → after\n +scan of one host /)
    expect((await succeeds(['inspect', updated])).stdout).toMatch(
      /updates +1, with 467 rows stated to be normal; the last with 467: 3\d\d novel before, \d+ unlike/,
    )
  })

  it('is counted by inspect, with its rows, and gives equal bytes', async () => {
    const third = join(folder, 'third.oddflow')
    const args = ['update', updated, more, '--assume-normal', '-o', third]
    await succeeds(args)
    const bytes = readFileSync(third)
    await succeeds(args)
    expect(readFileSync(third)).toEqual(bytes)
    const said = JSON.parse((await succeeds(['inspect', third, '--format', 'json'])).stdout)
    const before = JSON.parse((await succeeds(['inspect', updated, '--format', 'json'])).stdout)
    const { count, rows, last } = said.provenance.updates
    expect(count).toBe(2)
    expect(rows).toBe(before.provenance.updates.rows + last.rows)
    expect(last.dataSha256).not.toBe(before.provenance.updates.last.dataSha256)
  })

  it('refuses rows that nobody vouches for, and options of mixtures', async () => {
    const output = join(folder, 'none.oddflow')
    const plain = await oddflow(['update', model, more, '-o', output])
    expect(plain).toMatchObject({ code: 2, stdout: '' })
    expect(plain.stderr).toContain('give --assume-normal')
    const mixture = await oddflow([
      'update',
      model,
      more,
      '--assume-normal',
      '--half-life',
      '50',
      '-o',
      output,
    ])
    expect(mixture).toMatchObject({ code: 2 })
    expect(mixture.stderr).toContain('--half-life: an ensemble has no such option')
    expect(existsSync(output)).toBe(false)
  })
})

it('one odd flow among 400 hides nothing', async (context) => {
  const capture = (name: string) => cases(`${name}.pcap.gz`)
  if (!existsSync(capture('cam-ok'))) return context.skip(NO_EVIDENCE)
  const trainings = ['cam-ok', 'cam-big'].flatMap((name) => ['1', '2'].map((seed) => ({ name, seed })))
  for (const { name, seed } of sampleOf(trainings, 0.5)) {
    const model = join(folder, `${name}-${seed}.oddflow`)
    await succeeds(['train', capture(name), ...OPTIONS, '--seed', seed, '-o', model])
    expect(await novelShare(model, capture('cam-test'))).toBeLessThanOrEqual(0.03)
    for (const kind of ['cam-abn1', 'cam-abn2', 'cam-abn3']) {
      expect(await novelShare(model, capture(kind)), `${name}, ${kind}`).toBe(1)
    }
  }
})
