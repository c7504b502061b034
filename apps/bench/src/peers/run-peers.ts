/**
 * One-class SVMs of other programs on our rows, with the same kernel, nu and tolerance. libsvm's training time is that
 * of the whole program, and svm-predict gives no scores of one-class models, so they are computed from its model file.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DataError, decodeNpyMatrix, encodeNpy, type Matrix } from '@oddflow/core'
import { openScratchFolder } from '@oddflow/program'
import { z } from 'zod'
import {
  amount,
  count,
  digest,
  jsonLines,
  newestOfEach,
  packagePath,
  parseShape,
  positive,
  readLines,
  share,
  text,
  writeFileWhole,
} from '../files.js'
import { runProcess, whyFailed } from '../machines/reach.js'

/** The middle value, or the mean of the two in the middle; of at least one. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** The Python that has scikit-learn: Debian's own has Debian's packages, whatever else is on the path. */
const PYTHONS = ['/usr/bin/python3', 'python3']
const PYTHON_LIMITS = { timeoutMillis: 60_000, maximumOutputBytes: 100_000 }

/** null where none has. */
export async function findPython(): Promise<string | null> {
  for (const command of PYTHONS) {
    if ((await runProcess(command, ['-c', 'import sklearn'], PYTHON_LIMITS)).code === 0) return command
  }
  return null
}

/** Runs a script of peers/ on a folder that holds `rows` as NAME.npy, and reads what it made. */
export async function runPython<T>(
  python: string,
  script: string,
  rows: Readonly<Record<string, Matrix>>,
  args: readonly string[],
  read: (stdout: string, folder: string) => T,
): Promise<T> {
  const { path: folder, remove } = openScratchFolder('oddflow-bench-python')
  try {
    for (const [name, own] of Object.entries(rows)) writeFileSync(join(folder, `${name}.npy`), encodeNpy(own))
    const path = packagePath(`peers/${script}`)
    const limits = { timeoutMillis: 1_800_000, maximumOutputBytes: 1_000_000 }
    const outcome = await runProcess(python, [path, folder, ...args], limits)
    if (outcome.code !== 0) throw new DataError(`${script}: ${whyFailed(outcome)}`)
    return read(outcome.stdout, folder)
  } finally {
    remove()
  }
}

export const PEERS = ['scikit-learn', 'libsvm'] as const
export type Peer = (typeof PEERS)[number]

const side = z.strictObject({
  auc: share,
  supportVectors: positive,
  /** Fit alone, or where the peer is a program of files, the whole program. */
  trainMillis: amount,
  /** Medians over the passes; null where the peer does not score by itself. */
  testMillis: amount.nullable(),
})

const shape = z.strictObject({
  format: z.literal(2),
  dataset: z.string().regex(/^[a-z0-9][a-z0-9-]{0,39}$/),
  dataSha256: digest,
  tuning: z.enum(['none', 'minimal']),
  repeat: count,
  seed: count,
  trainRows: positive,
  testRows: positive,
  peer: z.enum(PEERS),
  version: text,
  /** Of the pair distances, and what came of it; null where the bandwidth itself was given. */
  bandwidthQuantile: share.nullable(),
  bandwidth: amount,
  nu: share,
  theirs: side,
  ours: side,
  node: text,
  cpu: text,
  loadAverage: amount.nullable(),
})

export type PeerReading = z.infer<typeof shape>

export const peerKey = ({
  dataset,
  tuning,
  repeat,
  seed,
  peer,
}: Pick<PeerReading, 'dataset' | 'tuning' | 'repeat' | 'seed' | 'peer'>): string =>
  [dataset, tuning, repeat, seed, peer].join(' ')

/** None when there is no file. Throws an error that begins with the path and names the line. */
export function readPeerReadings(path: string): PeerReading[] {
  return readLines(path, 'peers', (line) => parseShape(shape, line, 'peer'))
}

/** Newer ones in the place of older ones; in the order of their keys. */
export function writePeerReadings(path: string, readings: readonly PeerReading[]): void {
  writeFileWhole(path, jsonLines(newestOfEach(readings, peerKey).map((reading) => shape.parse(reading))))
}

const LIMITS = { timeoutMillis: 600_000, maximumOutputBytes: 1_000_000 }

interface PeerWork {
  readonly train: Matrix
  readonly test: Matrix
  readonly timed: Matrix
  readonly bandwidth: number
  readonly nu: number
  readonly tolerance: number
  readonly runs: number
}

/** A peer that does not score by itself has no times of tests. */
type PeerResult = Omit<z.infer<typeof sklearnAnswer>, 'testMillis'> & {
  readonly scores: Float64Array
  readonly testMillis: readonly number[] | null
}

/** null when the peer is not installed. Throws DataError when it is, and does not do it. */
export function runPeer(peer: Peer, work: PeerWork): Promise<PeerResult | null> {
  return peer === 'scikit-learn' ? runSklearn(work) : runLibsvm(work)
}

const sklearnAnswer = z.object({
  version: z.string(),
  trainMillis: z.number(),
  testMillis: z.array(z.number()),
  supportVectors: z.number().int(),
})

async function runSklearn(work: PeerWork): Promise<PeerResult | null> {
  const python = await findPython()
  if (python === null) return null
  const { train, test, timed, bandwidth, nu, tolerance, runs } = work
  const args = [1 / (bandwidth * bandwidth), nu, tolerance, runs].map(String)
  return runPython(python, 'sklearn_ocsvm.py', { train, test, timed }, args, (stdout, folder) => ({
    ...sklearnAnswer.parse(JSON.parse(stdout)),
    scores: decodeNpyMatrix(readFileSync(join(folder, 'scores.npy'))).data,
  }))
}

async function runLibsvm(work: PeerWork): Promise<PeerResult | null> {
  // without arguments it prints its usage
  const found = await runProcess('svm-train', [], LIMITS)
  if (!found.stdout.includes('svm_type')) return null
  const { path: folder, remove } = openScratchFolder('oddflow-bench-libsvm')
  const data = join(folder, 'train.txt')
  const model = join(folder, 'libsvm.model')
  const gamma = 1 / (work.bandwidth * work.bandwidth)
  const options = `-s 2 -t 2 -g ${gamma} -n ${work.nu} -e ${work.tolerance} -q`.split(' ')
  try {
    writeFileSync(data, sparseText(work.train))
    const started = performance.now()
    const outcome = await runProcess('svm-train', [...options, data, model], LIMITS)
    const trainMillis = performance.now() - started
    if (outcome.code !== 0) throw new DataError(`libsvm: ${whyFailed(outcome)}`)
    const scored = scoreByLibsvm(readFileSync(model, 'utf8'), work.test, gamma)
    return { version: 'libsvm (svm-train)', ...scored, trainMillis, testMillis: null }
  } finally {
    remove()
  }
}

function sparseText({ rows, cols, data }: Matrix): string {
  const lines: string[] = []
  for (let i = 0; i < rows; i++) {
    const entries: string[] = []
    for (let j = 0; j < cols; j++) {
      const value = data[i * cols + j]!
      if (value !== 0) entries.push(`${j + 1}:${value}`)
    }
    lines.push(`1 ${entries.join(' ')}`)
  }
  return `${lines.join('\n')}\n`
}

/** Σ coefficient · exp(−gamma‖x − sv‖²) − rho. */
function scoreByLibsvm(
  text: string,
  test: Matrix,
  gamma: number,
): { scores: Float64Array; supportVectors: number } {
  const [head = '', body = ''] = text.split('\nSV\n')
  const rho = Number(/^rho (.*)$/m.exec(head)?.[1])
  const lines = body.trim().split('\n')
  const vectors = new Float64Array(lines.length * test.cols)
  const coefficients = lines.map((line, i) => {
    const [coefficient, ...entries] = line.trim().split(' ')
    for (const entry of entries) {
      const [column, value] = entry.split(':').map(Number)
      vectors[i * test.cols + column! - 1] = value!
    }
    return Number(coefficient)
  })
  const scores = new Float64Array(test.rows)
  for (let r = 0; r < test.rows; r++) {
    let sum = -rho
    for (let i = 0; i < coefficients.length; i++) {
      let squared = 0
      for (let j = 0; j < test.cols; j++) {
        const difference = test.data[r * test.cols + j]! - vectors[i * test.cols + j]!
        squared += difference * difference
      }
      sum += coefficients[i]! * Math.exp(-gamma * squared)
    }
    scores[r] = sum
  }
  return { scores, supportVectors: coefficients.length }
}
