/**
 * Feature sets and recipes through the program, beside what others made of the same captures: the rows that the
 * paper's authors' own code wrote, a reading of the paper by an independent program, and hand-picked flows.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createRng, featureDimension, type IatSizeContract, matrixOf } from '../../packages/core/src/index.js'
import {
  calibrateThreshold,
  checkParameters,
  encodeModelFile,
  fitDetector,
} from '../../packages/detectors/src/index.js'
import { oddflowAmongMany } from './support/many-commands.js'
import { readNpy } from './support/npy.js'
import { lab, refuses, succeeds, temporaryFolder } from './support/oddflow.js'
import { golden, goldenCaptures, NO_EVIDENCE, readJson, sharedMissing } from './support/shared.js'

const folder = temporaryFolder()

/** Runs through the process that is already there. */
async function extract(capture: string, options: readonly string[]): Promise<number[][]> {
  const output = join(folder, 'rows.npy')
  const run = await oddflowAmongMany(['extract', capture, '-o', output, ...options], folder)
  expect(run, `${capture} ${options.join(' ')}`).toMatchObject({ code: 0, stdout: '' })
  const { rows, cols, data } = readNpy(readFileSync(output))
  return Array.from({ length: rows }, (_, i) => data.slice(i * cols, (i + 1) * cols))
}

function readCsv(...path: string[]): string[][] {
  return readFileSync(goldenCaptures(...path), 'utf8')
    .trim()
    .split('\n')
    .map((line) => line.split(','))
}

const byText = (rows: readonly number[][]): string[] => rows.map((row) => row.join(' ')).sort()

const CAPTURES = ['demo', 'demo2', 'deeplens_shop_25', 'deeplens_open_dishwasher_22']
const FILES = { IAT: 'iat', SIZE: 'size', IAT_SIZE: 'iat-size', 'STATS+HEADER': 'stats-header' }
const WINDOW_FILES = { SAMP_NUM: 'samp-num', SAMP_SIZE: 'samp-size' }
const CASES = CAPTURES.flatMap((name) =>
  Object.entries({ ...FILES, ...WINDOW_FILES }).map(([file, features]) => ({ name, file, features })),
)

describe("--recipe authors gives the authors' rows to the bit", () => {
  it.for(CASES)('$features of $name', async ({ name, file, features }, context) => {
    if (sharedMissing) return context.skip(NO_EVIDENCE)
    const of = ['authors_features', 'odet', name]
    const { pcap } = readJson<{ pcap: string }>(goldenCaptures(...of, 'meta.json'))
    // of one capture their tool built some packets anew; a second file has what its rule gives
    const captured = `subflows_${file}.captured_length.csv`
    const isCaptured = existsSync(goldenCaptures(...of, captured))
    const theirs = readCsv(...of, isCaptured ? captured : `subflows_${file}.csv`).map((line) =>
      line.slice(6).map(Number),
    )
    const rows = await extract(goldenCaptures(pcap), ['--recipe', 'authors', '--features', features])
    if (file === 'STATS+HEADER' && name === 'demo') {
      // its statistics are of the packets built anew, and there is no second file
      const front = (all: readonly number[][]) => all.map((row) => row.slice(0, -10))
      expect(front(rows)).toEqual(front(theirs))
    } else expect(rows).toEqual(theirs)
  })
})

interface Golden09 {
  pcaps: { name: string; pcapng_base64: string; interval: number; dim: number; features: number[][] }[]
}

/** A model file whose contract has the authors' rules with this interval and p. */
function authorsModel(durationSeconds: number, packetsPerFlow: number): Uint8Array {
  const contract: IatSizeContract = {
    featureSet: 'iat-size',
    featureSetVersion: 1,
    dimension: featureDimension('iat-size', packetsPerFlow, 'idle-gap'),
    packetsPerFlow,
    iatUnit: 'seconds',
    sizeMeasure: 'captured',
    flowKey: 'directional-5-tuple',
    idleTimeoutMicros: 600_000_000,
    activeTimeoutMicros: null,
    truncation: {
      mode: 'idle-gap',
      durationMicros: Math.floor(durationSeconds * 1e6),
      durationSeconds,
    },
    minimumPackets: 2,
    scaler: 'none',
  }
  const rng = createRng(1)
  const cols = contract.dimension
  const rows = matrixOf(
    30,
    cols,
    Float64Array.from({ length: 30 * cols }, () => rng.nextNormal()),
  )
  const detector = fitDetector(rows, checkParameters({ detector: 'nearest', m: 5 }), rng)
  const threshold = calibrateThreshold(new Float64Array(30), 0.1)
  const provenance = { oddflowVersion: '0', seed: 1, rows: 30, dataSha256: '0'.repeat(64) }
  return encodeModelFile({ detector, contract, threshold, onePacketRule: null, provenance })
}

it("extract --model under the authors' rules gives the flows of golden 09 to the bit", async (context) => {
  if (sharedMissing) return context.skip(NO_EVIDENCE)
  const { pcaps } = readJson<Golden09>(golden('09_flows.json'))
  expect(pcaps.length).toBeGreaterThan(1)
  for (const { name, pcapng_base64, interval, dim, features } of pcaps) {
    const [capture, model] = [join(folder, name), join(folder, 'authors.oddflow')]
    writeFileSync(capture, Buffer.from(pcapng_base64, 'base64'))
    writeFileSync(model, authorsModel(interval, dim))
    if (features.length > 0) expect(await extract(capture, ['--model', model]), name).toEqual(features)
    else {
      const args = ['extract', capture, '-o', 'none.npy', '--model', model]
      await refuses(args, { code: 1, says: /so there is no row to write/, folder })
    }
    const run = await oddflowAmongMany(['score', model, capture, '--format', 'json'], folder)
    const rules = run.stdout
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { rule: string }).rule)
    expect(rules.filter((rule) => rule === 'score')).toHaveLength(features.length)
  }
})

const PAPER = 'expected_features_paper_reading'
const paperFolders = sharedMissing ? ['none'] : readdirSync(goldenCaptures(PAPER))

it.for(paperFolders)("extract gives the paper's rows of %s", async (name, context) => {
  if (sharedMissing) return context.skip(NO_EVIDENCE)
  const theirs = readCsv(PAPER, name, 'IAT_SIZE_us.csv').map((line) => line.slice(6).map(Number))
  const capture = goldenCaptures('captures', name.replace('_', '/'))
  expect(byText(await extract(capture, ['--features', 'iat-size', '--iat-unit', 'us']))).toEqual(
    byText(theirs),
  )
  expect(byText(await extract(capture, ['--recipe', 'paper']))).toEqual(byText(theirs))
})

it('extract makes the flow summaries that train learns from, unless options or the recipe name another set', async () => {
  const normal = lab('normal-4.pcap.gz').path
  const model = join(folder, 'default.oddflow')
  await succeeds(['train', normal, '-o', model])
  const rows = await extract(normal, [])
  expect(rows).toEqual(await extract(normal, ['--model', model]))
  expect(rows).toEqual(await extract(normal, ['--recipe', 'default']))
  expect(rows).toEqual(await extract(normal, ['--features', 'flow-summary']))
  expect((await extract(normal, ['--recipe', 'paper']))[0]).not.toHaveLength(rows[0]!.length)
})

it('extract truncates where train splits, unless it is told the recipe or the model', async () => {
  const normal = lab('normal-4.pcap.gz').path
  const model = join(folder, 'split.oddflow')
  await succeeds(['train', normal, '-o', model, '--features', 'iat-size'])
  const split = await extract(normal, ['--model', model])
  expect(await extract(normal, ['--recipe', 'default', '--features', 'iat-size'])).toEqual(split)
  expect(await extract(normal, ['--features', 'iat-size', '--truncation', 'split'])).toEqual(split)
  const truncated = await extract(normal, ['--features', 'iat-size'])
  expect(truncated.length).toBeLessThan(split.length)
  expect(await extract(normal, ['--features', 'iat-size', '--truncation', 'truncate'])).toEqual(truncated)
})

describe('every feature set, from training to the report', () => {
  const normal = lab('normal-4.pcap.gz').path
  const novel = lab('novel-bruteforce.pcap.gz').path
  it.each([
    ['iat-size', 'IAT+SIZE', 'iat1_us, size1_bytes'],
    ['iat', 'IAT', 'iat1_us, iat2_us'],
    ['size', 'SIZE', 'size1_bytes, size2_bytes'],
    ['stats-header', 'STATS+HEADER', 'fin_packets, syn_packets'],
    ['samp-size', 'SAMP-SIZE', 'window1_bytes, window2_bytes'],
    ['samp-num', 'SAMP-NUM', 'window1_packets, window2_packets'],
    ['header-bits', 'header bits', 'p1_direction_bit, p1_version_3_bit'],
  ])('%s', async (features, name, columns) => {
    const [model, report, rows] = ['m.oddflow', 'report.html', 'rows.csv'].map((file) => join(folder, file))
    const unit = ['iat-size', 'iat', 'stats-header'].includes(features) ? ['--iat-unit', 'us'] : []
    const training = ['train', normal, '-o', model!, '--features', features, '--scaler', 'standard']
    const run = (args: readonly string[]) => oddflowAmongMany(args, folder)
    expect(await run([...training, ...unit])).toMatchObject({ code: 0 })
    const inspect = (await run(['inspect', model!])).stdout
    expect(inspect).toContain(`  features          ${name} of `)
    expect(inspect).toContain(`  columns           ${columns}, `)
    const json = JSON.parse((await run(['inspect', model!, '--format', 'json'])).stdout) as {
      featureContract: { featureSet: string; dimension: number; protocols: string[] }
      columns: { name: string; unit: string }[]
    }
    expect(json.featureContract).toMatchObject({ featureSet: features, protocols: ['tcp', 'udp'] })
    expect(json.columns).toHaveLength(json.featureContract.dimension)
    const evaluation = ['evaluate', model!, '--normal', normal, '--novel', novel, '--report', report!]
    expect(await run(evaluation)).toMatchObject({ code: 0 })
    expect(readFileSync(report!, 'utf8')).toContain(columns)
    // rows by way of a file score as the capture does
    expect(await run(['extract', novel, '-o', rows!, '--model', model!])).toMatchObject({ code: 0 })
    const head = readFileSync(rows!, 'utf8').split('\n', 1)[0]!.split(',')
    expect(head.slice(0, 2).join(', ')).toBe(columns)
    const scores = async (input: string): Promise<number[]> => {
      const { stdout } = await run(['score', model!, input, '--format', 'json'])
      const lines = stdout.trim().split('\n')
      return lines.flatMap((line) => (JSON.parse(line) as { score: number | null }).score ?? []).sort()
    }
    const ofRows = await scores(rows!)
    expect(ofRows.length).toBeGreaterThan(100)
    expect(ofRows).toEqual(await scores(novel))
  })

  it("under the authors' rules too, which collect a capture before it is judged", async () => {
    const [model, rows] = ['a.oddflow', 'a.npy'].map((file) => join(folder, file))
    await succeeds(['train', normal, '-o', model!, '--recipe', 'authors'])
    await succeeds(['extract', novel, '-o', rows!, '--model', model!])
    const run = await succeeds(['score', model!, novel, '--format', 'json'])
    const lines = run.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { rule: string; packets: number })
    expect(lines.filter(({ rule }) => rule === 'score')).toHaveLength(readNpy(readFileSync(rows!)).rows)
    // every packet that is in a flow is in a record
    const inFlows = Number(/: (\d+) in flows/.exec(run.stderr)![1])
    expect(lines.reduce((sum, { packets }) => sum + packets, 0)).toBe(inFlows)
  })
})

it('--protocols says whose flows make rows, and a model remembers it', async () => {
  const [model, usual] = ['all.oddflow', 'usual.oddflow'].map((file) => join(folder, file))
  const capture = lab('novel-scan.pcap').path
  const run = (args: readonly string[]) => oddflowAmongMany(args, folder)
  await run(['train', capture, '-o', model!, '--protocols', 'tcp,udp,icmp'])
  await run(['train', capture, '-o', usual!])
  expect((await run(['inspect', model!])).stdout).toMatch(/ {2}flows .*; of tcp, udp, icmp[;\n]/)
  const protocolsUnder = async (path: string): Promise<string[]> => {
    const { stdout } = await run(['score', path, capture, '--format', 'json'])
    const lines = stdout.trim().split('\n')
    return [...new Set(lines.map((line) => (JSON.parse(line) as { protocol: string }).protocol))].sort()
  }
  expect(await protocolsUnder(model!)).toEqual(['icmp', 'icmpv6', 'tcp', 'udp'])
  expect(await protocolsUnder(usual!)).toEqual(['tcp', 'udp'])
  expect((await run(['score', usual!, capture])).stderr).toMatch(/not in flows: .*\d+ protocol-icmpv6/)
})
