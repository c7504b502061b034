/** `oddflow train … --select-normal … --select-novel …`: parameters chosen in worker threads. */
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { createRng } from '../../packages/core/dist/index.js'
import { jsonLines, lab, main, refuses, succeeds, temporaryFolder } from './support/oddflow.js'

interface Report {
  chosen: { bandwidthQuantile: number; auc: number }
  failed: number
  grid: Record<string, number[]>
  validation: { normalRows: number; novelRows: number; dataSha256: string }
  candidates: { bandwidthQuantile: number; auc: number | null; failure?: string }[]
}

const folder = temporaryFolder()
const at = (name: string): string => join(folder, name)

/** Rows of three numbers about some centres. */
function writeRows(name: string, count: number, centres: readonly number[], seed: number): void {
  const rng = createRng(seed)
  const rows = Array.from({ length: count }, (_, i) =>
    [0, 1, 2].map(() => (centres[i % centres.length]! + rng.nextNormal()).toFixed(4)).join(','),
  )
  writeFileSync(at(name), `${rows.join('\n')}\n`)
}

beforeAll(() => {
  writeRows('train.csv', 150, [0, 7], 1)
  writeRows('normal.csv', 40, [0, 7], 2)
  writeRows('novel.csv', 30, [2.5, 5], 3)
  writeFileSync(at('wide.csv'), '1,2,3,4\n')
  writeFileSync(at('nan.csv'), '1,2,nan\n')
})

const search = (output: string, ...more: string[]): string[] => [
  ...['train', at('train.csv'), '-o', at(output), '--detector', 'oc-kjl', '--m', '30', '--format', 'json'],
  ...['--select-normal', at('normal.csv'), '--select-novel', at('novel.csv'), ...more],
]

describe('a search over rows', () => {
  it('gives the same model and the same report whatever the number of threads', async () => {
    const runs = []
    for (const jobs of ['1', '3']) {
      runs.push(
        await succeeds(
          search(`jobs-${jobs}`, '--k', '4', '--jobs', jobs, '--selection-report', at(`report-${jobs}`)),
        ),
      )
    }
    expect(readFileSync(at('jobs-3')).equals(readFileSync(at('jobs-1')))).toBe(true)
    expect(readFileSync(at('report-3')).equals(readFileSync(at('report-1')))).toBe(true)
    expect(runs.map(({ stderr }) => stderr).join('')).not.toMatch(/choosing/)
    const report = JSON.parse(readFileSync(at('report-1'), 'utf8')) as Report
    expect(report.candidates.length).toBe(10)
    expect(report.validation).toMatchObject({ normalRows: 40, novelRows: 30 })
    const largest = Math.max(...report.candidates.map(({ auc }) => auc ?? -1))
    expect(report.chosen.auc).toBe(largest)
    const first = report.candidates.find(({ auc }) => auc === largest)!
    expect(report.chosen).toMatchObject({ bandwidthQuantile: first.bandwidthQuantile })

    const [model] = jsonLines<{
      parameters: { bandwidthQuantile: number }
      provenance: { selection: object }
    }>(runs[0]!)
    expect(model!.parameters.bandwidthQuantile).toBe(first.bandwidthQuantile)
    expect(model!.provenance.selection).toEqual({
      criterion: 'validation-auc',
      grid: { bandwidthQuantile: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95] },
      candidates: 10,
      failed: 0,
      auc: largest,
      normalRows: 40,
      novelRows: 30,
      dataSha256: report.validation.dataSha256,
    })
    const inspected = await succeeds(['inspect', at('jobs-1')])
    expect(inspected.stdout).toContain(
      `--bandwidth-quantile ${first.bandwidthQuantile} of 10 candidates: AUC ${largest.toFixed(4)} on 40 normal and 30 novel rows`,
    )
  })

  it('fits what train fits when it is told the parameters, and evaluate measures the same AUC', async () => {
    const { chosen } = JSON.parse(readFileSync(at('report-1'), 'utf8')) as Report
    const told = ['--bandwidth-quantile', `${chosen.bandwidthQuantile}`, '--k', '4']
    await succeeds(['train', at('train.csv'), '-o', at('told'), '--detector', 'oc-kjl', '--m', '30', ...told])
    const scores = async (model: string) =>
      (await succeeds(['score', at(model), at('normal.csv'), '--format', 'csv'])).stdout
    expect(await scores('told')).toBe(await scores('jobs-1'))
    const evaluated = await succeeds([
      'evaluate',
      at('jobs-1'),
      '--normal',
      at('normal.csv'),
      '--novel',
      at('novel.csv'),
      '--format',
      'json',
    ])
    expect(jsonLines<{ auc: number }>(evaluated)[0]!.auc).toBe(chosen.auc)
  })

  it('warns of rows that are trained on as well', async () => {
    const args = search('warned', '--k', '1')
    args[args.indexOf(at('normal.csv'))] = at('train.csv')
    expect((await succeeds(args)).stderr).toMatch(/warning: .*train\.csv: is also a training input/)
  })
})

describe('a search over captures', () => {
  it('makes validation rows under the contract of training, with filters of their own', async () => {
    const novel = lab('novel-bruteforce.pcap.gz')
    const run = await succeeds([
      ...['train', lab('normal-1.pcap').path, '-o', at('captures'), '--format', 'json', '--m', '40'],
      ...['--features', 'iat-size'],
      ...['--select-normal', lab('normal-4.pcap.gz').path, '--select-novel', novel.path],
      ...['--select-novel-filter', novel.novelWhen!],
    ])
    const [model] = jsonLines<{
      parameters: { bandwidthQuantile: number }
      provenance: { selection: { candidates: number; normalRows: number; novelRows: number; auc: number } }
    }>(run)
    const { selection } = model!.provenance
    expect(selection.candidates).toBe(10)
    expect(Math.min(selection.normalRows, selection.novelRows)).toBeGreaterThan(20)
    expect(selection.auc).toBeGreaterThan(0.6)
  })
})

describe('what cannot be searched is refused', () => {
  const swapped = (from: string, to: string): string[] => {
    const args = search('refused')
    args[args.indexOf(at(from))] = to
    return args
  }

  it.each<[string, () => string[], 1 | 2, RegExp]>([
    [
      'rows of another width',
      () => swapped('novel.csv', at('wide.csv')),
      1,
      /wide\.csv: rows of 4 numbers, but the training rows have 3/,
    ],
    ['rows that are no numbers', () => swapped('novel.csv', at('nan.csv')), 1, /nan\.csv: /],
    [
      'a file that is not there',
      () => swapped('normal.csv', at('none.csv')),
      1,
      /none\.csv: cannot read it: no such file/,
    ],
    [
      'captures beside rows',
      () => swapped('novel.csv', 'a.pcap'),
      2,
      /captures and feature rows cannot be mixed/,
    ],
    [
      'an output that is an input',
      () => search('refused', '--selection-report', at('novel.csv')),
      2,
      /novel\.csv: is named twice/,
    ],
    [
      'a filter for rows',
      () => search('refused', '--select-novel-filter', 'tcp'),
      2,
      /--select-novel-filter: does not apply to feature rows/,
    ],
    [
      'one label alone',
      () => ['train', at('train.csv'), '-o', at('refused'), '--select-normal', at('normal.csv')],
      2,
      /--select-normal: needs --select-novel/,
    ],
  ])('%s', async (_, args, code, says) => {
    await refuses(args(), { code, says, folder })
  })

  it('a novel capture of which the filter leaves nothing', () =>
    refuses(
      [
        ...[
          'train',
          lab('normal-1.pcap').path,
          '-o',
          at('refused'),
          '--select-normal',
          lab('normal-4.pcap.gz').path,
          '--features',
          'iat-size',
          '--size',
          'ip',
        ],
        ...['--select-novel', lab('novel-scan.pcap').path, '--select-novel-filter', 'port 1'],
      ],
      { code: 1, says: /novel-scan\.pcap: no flow of 2 or more packets to choose parameters by/, folder },
    ))

  it('a grid of which no candidate can be fitted', () => {
    writeFileSync(at('equal.csv'), `${'1,1,1\n'.repeat(99)}2,2,2\n3,3,3\n`)
    const args = swapped('train.csv', at('equal.csv'))
    return refuses([...args, '--k', '4'], {
      code: 1,
      says: /equal\.csv: none of the 10 candidates could be fitted; the first: /,
      folder,
    })
  })
})

/** Of a process with its threads; in hundredths where the kernel counts it. */
function processorSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}

it.skipIf(!existsSync('/proc/self/stat'))('Ctrl-C ends a search at once and leaves nothing', async () => {
  writeRows('many.csv', 3000, [0, 7], 4)
  const args = search('interrupted', '--selection-report', at('interrupted-report'), '--m', '300')
  args[args.indexOf(at('train.csv'))] = at('many.csv')
  // a terminal would show the bar; without one, the threads' work is seen by their processor time alone
  const child = spawn(process.execPath, [main, ...args], { stdio: 'ignore' })
  await expect.poll(() => processorSeconds(child.pid!), { timeout: 60_000 }).toBeGreaterThan(1.5)
  child.kill('SIGINT')
  const ending = await new Promise((resolve) => {
    child.on('close', (code, signal) => resolve({ code, signal }))
  })
  expect(ending).toEqual({ code: null, signal: 'SIGINT' })
  expect(existsSync(at('interrupted')) || existsSync(at('interrupted-report'))).toBe(false)
})
