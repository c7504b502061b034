/** A run of the speed comparison, a line for each figure, as JSON lines in one file (`peers-speed.jsonl`). */
import { spawn } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { createRng, DataError, encodeNpy, log, type Matrix, matrixOf, parseStrictJson } from '@oddflow/core'
import {
  checkParameters,
  createScoreWorkspace,
  type DetectorModel,
  type DetectorOptions,
  fitDetector,
  scoreSamples,
} from '@oddflow/detectors'
import { atEnd } from '@oddflow/program'
import { z } from 'zod'
import { part } from '../datasets/pools.js'
import {
  amount,
  jsonLines,
  packagePath,
  parseShape,
  positive,
  readLines,
  text,
  writeFileWhole,
} from '../files.js'
import { runProcess, whyFailed } from '../machines/reach.js'
import { processorSeconds } from '../run/machine.js'
import { findPython, median } from './run-peers.js'

const MAXIMUM_LINE = 10_000

/**
 * A program that answers one JSON line to each line; it stays up while sides take turns and ends with this program.
 */
export interface LinePeer {
  /** What it says unasked. */
  greeting(): Promise<unknown>
  ask(question: string): Promise<unknown>
  /** Resolves when it has ended. */
  end(): Promise<void>
}

/** `name`: for messages. A program that cannot be started, or ends early, fails the next answer with DataError. */
export function startLinePeer(
  name: string,
  command: string,
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): LinePeer {
  const child = spawn(command, args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, ...environment },
  })
  const forget = atEnd(() => child.kill('SIGKILL'))
  let trouble = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    trouble = (trouble + text).slice(-1000)
  })
  // a missing answer reports a peer that has ended
  child.stdin.on('error', () => {})
  const ended = new Promise<void>((resolve) => {
    child.on('error', (error) => {
      trouble = error.message
      resolve()
    })
    child.on('close', () => resolve())
  }).finally(forget)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const answer = async (): Promise<unknown> => {
    const { value, done } = await lines.next()
    if (done === true) {
      await ended
      throw new DataError(`${name}: ended without an answer: ${trouble.trim().split('\n').pop() ?? ''}`)
    }
    const refuse = (message: string): never => {
      throw new DataError(`${name}: its answer is not JSON: ${message}`)
    }
    if (value.length > MAXIMUM_LINE) refuse('too long')
    return parseStrictJson(value, refuse).value
  }
  return {
    greeting: answer,
    ask(question) {
      child.stdin.write(`${question}\n`)
      return answer()
    },
    end() {
      child.stdin.end()
      return ended
    },
  }
}

// ---- the other sides, as far as they are installed: Python with numpy and scikit-learn, and C through cc

const here = (name: string): string => packagePath(`peers/${name}`)
const LIMITS = { timeoutMillis: 120_000, maximumOutputBytes: 1_000_000 }

/** Types and flags of a build of scores.c: the arithmetic of ours in vectors of 32 and 16 bytes, and as loops. */
const OUR_BITS = '-ffp-contract=off'
const C_KINDS = {
  'C, 32-byte vectors': ['-DVECTOR=32', OUR_BITS],
  'C, 16-byte vectors': ['-DVECTOR=16', OUR_BITS],
  'C, plain': ['-DVECTOR=0', OUR_BITS],
  'C, 32 bytes and FMA': ['-DVECTOR=32'],
} as const
const PRECISIONS = ['f64', 'f32'] as const
type Precision = (typeof PRECISIONS)[number]

export type SpeedPeers = Awaited<ReturnType<typeof startSpeedPeers>>

/** `folder`: where the models are, and binaries go. `reference`: of refimpl.py, which need not be there. */
export async function startSpeedPeers(folder: string, reference: string) {
  const python = await startPython(folder, reference)
  const { c, compiler } = await startC(folder)
  const absent = [
    ...(python === null ? ['numpy and scikit-learn (Python)'] : []),
    ...(compiler === null ? ['C (no cc)'] : []),
  ]
  return { python, c, compiler, absent }
}

/** null where it is not installed. */
async function startPython(folder: string, reference: string) {
  const command = await findPython()
  if (command === null) return null
  const given = existsSync(join(reference, 'refimpl.py')) ? [reference] : []
  const peer = startLinePeer('numpy', command, [here('scores.py'), folder, ...given], {
    OMP_NUM_THREADS: '1',
    OPENBLAS_NUM_THREADS: '1',
    PYTHONDONTWRITEBYTECODE: '1',
  })
  const { versions } = z.object({ versions: z.string().max(200) }).parse(await peer.greeting())
  return { peer, versions }
}

/** None where there is no compiler. */
async function startC(folder: string) {
  const found = await runProcess('cc', ['--version'], LIMITS)
  const c: { side: string; precision: Precision; peer: LinePeer }[] = []
  if (found.code !== 0) return { c, compiler: null }
  for (const [side, flags] of Object.entries(C_KINDS)) {
    for (const precision of PRECISIONS) {
      const binary = join(folder, `${side}-${precision}`.replace(/[^a-z0-9]+/gi, '-'))
      const types = [`-DKERNEL=${precision === 'f64' ? 'double' : 'float'}`, '-DSUM=double']
      const args = ['-O3', '-march=native', ...flags, ...types, here('scores.c'), '-o', binary, '-lm']
      const built = await runProcess('cc', args, LIMITS)
      if (built.code !== 0) throw new DataError(`cc: ${whyFailed(built)}`)
      const peer = startLinePeer(side, binary, [join(folder, 'model.bin'), join(folder, 'rows.bin')])
      c.push({ side, precision, peer })
    }
  }
  return { c, compiler: found.stdout.split('\n')[0]!.slice(0, 200) }
}

/** Models that all sides score, and their files: .npy for Python, one run of float64 for C (peers/scores.c). */

/** Rows that are scored. */
export const SCORED_ROWS = 1000

const KJL = { detector: 'oc-kjl', k: 20, supportGuard: false } as const
const SVM = { detector: 'ocsvm' } as const

type SpeedModels = ReturnType<typeof makeSpeedModels>

export function makeSpeedModels(train: Matrix) {
  const rows = part(train, 0, SCORED_ROWS)
  const inBoth = <Model>(learn: (precision: Precision) => Model) => ({ f64: learn('f64'), f32: learn('f32') })
  const learnKjl = (supportGuard: boolean) =>
    inBoth((precision) =>
      fitDetector(train, checkParameters({ ...KJL, supportGuard, precision }), createRng(1)),
    )
  const kjl = learnKjl(false)
  const svm = inBoth((precision) => fitDetector(train, checkParameters({ ...SVM, precision }), createRng(1)))
  const { embedding, mixture } = kjl.f64
  const { supportVectors, dualCoefficients, offset } = svm.f64.svm
  const { landmarks, projection, bandwidth } = embedding
  const { weights, means, precisionCholesky } = mixture
  const [m, d, k] = [landmarks.rows, projection.rows, weights.length]
  return {
    train,
    rows,
    kjl,
    guardedKjl: learnKjl(true),
    svm,
    /** m and d of the embedding, k of the mixture, support vectors. */
    shape: { m, d, k, supportVectors: supportVectors.rows },
    /** Writes them into an empty folder. */
    writeTo(folder: string): void {
      const column = (data: Float64Array): Matrix => matrixOf(data.length, 1, data)
      const arrays = {
        landmarks,
        projection,
        weights: column(weights),
        means,
        factors: column(precisionCholesky),
        vectors: supportVectors,
        alpha: column(dualCoefficients),
      }
      for (const [name, value] of Object.entries({ ...arrays, rows, train })) {
        writeFileSync(join(folder, `${name}.npy`), encodeNpy(value))
      }
      writeFileSync(
        join(folder, 'model.json'),
        JSON.stringify({ arrays: Object.keys(arrays), bandwidth, offset }),
      )
      const normalisers = Array.from(weights, (weight, j) => {
        let sum = log(weight) - 0.5 * d * log(2 * Math.PI)
        for (let i = 0; i < d; i++) sum += log(precisionCholesky[(j * d + i) * d + i]!)
        return sum
      })
      const triangles: number[] = []
      for (let j = 0; j < k; j++) {
        for (let i = 0; i < d; i++) {
          for (let t = 0; t <= i; t++) triangles.push(precisionCholesky[(j * d + i) * d + t]!)
        }
      }
      const numbers = [train.cols, m, d, k, bandwidth, ...landmarks.data, ...projection.data]
      numbers.push(...normalisers, ...means.data, ...triangles)
      numbers.push(supportVectors.rows, offset, ...supportVectors.data, ...dualCoefficients)
      writeFileSync(join(folder, 'model.bin'), Float64Array.from(numbers))
      writeFileSync(join(folder, 'rows.bin'), Float64Array.of(SCORED_ROWS, ...rows.data))
    },
  }
}

const BATCHES = [100, 1] as const

type SpeedFigure = Pick<SpeedReading, 'what' | 'side' | 'precision' | 'batch' | 'nanos'>
type Head = Omit<SpeedFigure, 'nanos'>

/** What is scored, what the others call it, and how often C scores all rows for a time. */
const SCORED = [
  ['oc-kjl', 'kjl', 20],
  ['ocsvm', 'svm', 2],
] as const

const scored = z.object({ nanos: z.number().min(0), sum: z.number() })
const fitted = z.object({ seconds: z.number().min(0) })

/**
 * Allowed relative difference from our sum. The same arithmetic differs in the order of the sum alone; loops and fused
 * multiply-adds in float32 differ in every kernel value.
 */
function toleranceOf({ what, side, precision }: Head): number {
  if (side === 'numpy') return 1e-6
  const isSameArithmetic = side === 'typed arrays' || /^C, .*vectors$/.test(side)
  return precision === 'f64' || (isSameArithmetic && what === 'oc-kjl') ? 1e-9 : 1e-3
}

/**
 * Scores and fits of all sides in turns: medians of CPU time over nine rounds after one to warm up. Each side's sum of
 * scores must be ours, or it would compute something else.
 */
export async function measureSpeed(
  models: SpeedModels,
  peers: SpeedPeers,
  rounds: number,
  onRound: (round: number) => void,
): Promise<SpeedFigure[]> {
  const found = new Map<string, { readonly head: Head; readonly nanos: number[] }>()
  const sums = new Map<string, number>()
  const note = (head: Head, nanos: number): void => {
    const key = JSON.stringify(head)
    const known = found.get(key) ?? { head, nanos: [] }
    known.nanos.push(nanos)
    found.set(key, known)
  }
  const noteScores = (head: Head, { nanos, sum }: z.infer<typeof scored>): void => {
    note(head, nanos)
    // Python scores fewer rows one a call
    if (head.batch === 100) holdSum(sums, head, sum)
  }
  const ours = ourSides(models)
  for (let round = 0; round <= rounds; round++) {
    onRound(round)
    if (round === 1) found.clear()
    for (const batch of BATCHES) {
      for (const { what, side, precision, score, repeats } of ours) {
        noteScores({ what, side, precision, batch }, timeScores(models, score, batch, repeats))
      }
      for (const { side, precision, peer } of peers.c) {
        for (const [what, name, repeats] of SCORED) {
          noteScores(
            { what, side, precision, batch },
            scored.parse(await peer.ask(`${name} ${batch} ${repeats}`)),
          )
        }
      }
      if (peers.python === null) continue
      const count = batch === 1 ? 100 : SCORED_ROWS
      for (const [what, name] of SCORED) {
        const answer = await peers.python.peer.ask(JSON.stringify({ what: name, batch, count }))
        noteScores({ what, side: 'numpy', precision: 'f64', batch }, scored.parse(answer))
      }
    }
    for (const [what, options] of FITS) {
      const fit = () => fitDetector(models.train, checkParameters(options), createRng(1))
      const nanos = 1e9 * cpuSeconds(fit)
      note({ what, side: 'OddFlow', precision: 'f64', batch: null }, nanos)
    }
    if (peers.python === null) continue
    const fit = fitted.parse(await peers.python.peer.ask(JSON.stringify({ what: 'fit' })))
    note({ what: 'ocsvm fit', side: 'scikit-learn', precision: 'f64', batch: null }, 1e9 * fit.seconds)
    const ask = { what: 'sklearn-svm', batch: 100, count: 300 }
    const { nanos } = scored.parse(await peers.python.peer.ask(JSON.stringify(ask)))
    note({ what: 'ocsvm', side: 'scikit-learn', precision: 'f64', batch: 100 }, nanos)
  }
  return [...found.values()].map(({ head, nanos }) => ({ ...head, nanos: median(nanos) }))
}

const FITS = [
  ['oc-kjl-qs fit', { detector: 'oc-kjl-qs' }],
  ['ocsvm fit', { detector: 'ocsvm' }],
] as const satisfies readonly (readonly [string, DetectorOptions])[]

type Score = (rows: Matrix, out: Float64Array) => unknown

function ourSides({ kjl, guardedKjl, svm }: SpeedModels) {
  const scorer = (model: DetectorModel, simd: boolean): Score => {
    const workspace = createScoreWorkspace(model, { simd })
    return (rows, out) => scoreSamples(model, rows, out, workspace)
  }
  const both = (what: string, models: Readonly<Record<Precision, DetectorModel>>, repeats: number) =>
    PRECISIONS.map((precision) => {
      return { what, side: 'OddFlow', precision, score: scorer(models[precision], true), repeats }
    })
  const plain = { side: 'typed arrays', precision: 'f64' } as const
  return [
    ...both('oc-kjl', kjl, 20),
    ...both('oc-kjl, support guard', guardedKjl, 20),
    ...both('ocsvm', svm, 2),
    { ...plain, what: 'oc-kjl', score: scorer(kjl.f64, false), repeats: 5 },
    { ...plain, what: 'ocsvm', score: scorer(svm.f64, false), repeats: 1 },
  ]
}

function timeScores(
  { rows }: SpeedModels,
  score: Score,
  batch: number,
  repeats: number,
): z.infer<typeof scored> {
  const parts = Array.from({ length: rows.rows / batch }, (_, i) => part(rows, i * batch, (i + 1) * batch))
  const out = new Float64Array(batch)
  let sum = 0
  const seconds = cpuSeconds(() => {
    for (let r = 0; r < repeats; r++) {
      sum = 0
      for (const part of parts) {
        score(part, out)
        for (let i = 0; i < batch; i++) sum += out[i]!
      }
    }
  })
  return { nanos: (1e9 * seconds) / (rows.rows * repeats), sum }
}

function cpuSeconds(run: () => void): number {
  const before = process.cpuUsage()
  run()
  return processorSeconds(before)
}

/** Ours come first. */
function holdSum(sums: Map<string, number>, head: Head, sum: number): void {
  const { what, side, precision } = head
  const key = `${what} ${precision}`
  if (side === 'OddFlow') sums.set(key, sum)
  const ours = sums.get(key)!
  if (!(Math.abs(sum - ours) <= toleranceOf(head) * Math.abs(ours))) {
    throw new DataError(
      `${what}, ${side} ${precision}: computes something else: its sum of scores is ${sum}, ours ${ours}`,
    )
  }
}

const shape = z.strictObject({
  format: z.literal(1),
  /** `oc-kjl` and `ocsvm`: scores; `oc-kjl-qs fit`, `ocsvm fit`. */
  what: text,
  side: text,
  precision: z.enum(PRECISIONS),
  /** Rows a call; null for a fit. */
  batch: positive.nullable(),
  /** Of CPU time: a row, or a fit. */
  nanos: amount,
  dataset: text,
  trainRows: positive,
  dimension: positive,
  m: positive,
  d: positive,
  k: positive,
  supportVectors: positive,
  rounds: positive,
  /** What was not installed. */
  absent: z.array(text).max(10),
  node: text,
  python: text.nullable(),
  compiler: text.nullable(),
  cpu: text,
  loadBefore: amount,
  loadAfter: amount,
})

export type SpeedReading = z.infer<typeof shape>

/** None when there is no file. Throws an error that begins with the path. */
export function readSpeedReadings(path: string): SpeedReading[] {
  return readLines(path, 'peers-speed', (line) => parseShape(shape, line, 'peers-speed'))
}

/** One run in the place of the one before: sides that took no turns cannot be compared. */
export function writeSpeedReadings(path: string, readings: readonly SpeedReading[]): void {
  writeFileWhole(path, jsonLines(readings.map((reading) => shape.parse(reading))))
}
