/**
 * Scoring and training beside others, all sides in turn: nine rounds after one that warms up, medians of CPU time, which
 * a busy machine disturbs least. Ours take CPU time of this process (its compiler's and collector's threads included),
 * the others that of theirs.
 *
 * Every side's sum of scores must be ours, or it would be fast at something else.
 */
import { createRng, DataError, matrixOf } from '@oddflow/core'
import {
  checkParameters,
  createScoreWorkspace,
  type DetectorModel,
  type DetectorOptions,
  fitDetector,
  scoreSamples,
} from '@oddflow/detectors'
import { z } from 'zod'
import { median } from '../median.js'
import { SCORED_ROWS, type SpeedModels } from './speed-models.js'
import type { SpeedPeers } from './start-peers.js'

export const SPEED_ROUNDS = 9
const BATCHES = [100, 1] as const

export interface SpeedFigure {
  /** `oc-kjl` and `ocsvm`: scores; `oc-kjl-qs fit`, `ocsvm fit`. */
  readonly what: string
  readonly side: string
  readonly precision: 'f64' | 'f32'
  /** Rows a call; null for a fit. */
  readonly batch: number | null
  /** Of CPU time: a row, or a fit. */
  readonly nanos: number
}

const scored = z.object({ nanos: z.number().min(0), sum: z.number() })
const fitted = z.object({ seconds: z.number().min(0) })

/**
 * How far a side's sum may be from ours of the same precision, as a share. The same arithmetic gives the same bits, and
 * sums of them differ in their order alone; loops and fused multiply-adds in float32 differ in every kernel value.
 */
function toleranceOf({ what, side, precision }: Omit<SpeedFigure, 'nanos'>): number {
  if (side === 'numpy') return 1e-6
  const isSameArithmetic = side === 'typed arrays' || /^C, .*vectors$/.test(side)
  return precision === 'f64' || (isSameArithmetic && what === 'oc-kjl') ? 1e-9 : 1e-3
}

export async function measureSpeed(
  models: SpeedModels,
  peers: SpeedPeers,
  rounds: number,
  onRound: (round: number) => void,
): Promise<SpeedFigure[]> {
  const found = new Map<string, { readonly head: Omit<SpeedFigure, 'nanos'>; readonly nanos: number[] }>()
  const sums = new Map<string, number>()
  const note = (head: Omit<SpeedFigure, 'nanos'>, nanos: number): void => {
    const key = JSON.stringify(head)
    const known = found.get(key) ?? { head, nanos: [] }
    known.nanos.push(nanos)
    found.set(key, known)
  }
  const noteScores = (head: Omit<SpeedFigure, 'nanos'>, { nanos, sum }: z.infer<typeof scored>): void => {
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
        for (const [what, question] of [
          ['oc-kjl', `kjl ${batch} 20`],
          ['ocsvm', `svm ${batch} 2`],
        ] as const) {
          noteScores({ what, side, precision, batch }, scored.parse(await peer.ask(question)))
        }
      }
      if (peers.python === null) continue
      const count = batch === 1 ? 100 : SCORED_ROWS
      for (const [what, name] of [
        ['oc-kjl', 'kjl'],
        ['ocsvm', 'svm'],
      ] as const) {
        const answer = await peers.python.peer.ask(JSON.stringify({ what: name, batch, count }))
        noteScores({ what, side: 'numpy', precision: 'f64', batch }, scored.parse(answer))
      }
    }
    for (const [what, options] of FITS) {
      const nanos = 1e9 * cpuSeconds(() => learn(models, options))
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

function learn({ train }: SpeedModels, options: DetectorOptions): void {
  fitDetector(train, checkParameters(options), createRng(1))
}

type Score = (rows: ReturnType<typeof matrixOf>, out: Float64Array) => unknown

interface OurSide {
  readonly what: string
  readonly side: string
  readonly precision: 'f64' | 'f32'
  readonly score: Score
  readonly repeats: number
}

function ourSides({ kjl, guardedKjl, svm }: SpeedModels): OurSide[] {
  const scorer = (model: DetectorModel, simd: boolean): Score => {
    const workspace = createScoreWorkspace(model, { simd })
    return (rows, out) => scoreSamples(model, rows, out, workspace)
  }
  const both = (what: string, side: string, models: SpeedModels['kjl'], repeats: number): OurSide[] =>
    (['f64', 'f32'] as const).map((precision) => ({
      what,
      side,
      precision,
      score: scorer(models[precision], true),
      repeats,
    }))
  return [
    ...both('oc-kjl', 'OddFlow', kjl, 20),
    ...both('oc-kjl, support guard', 'OddFlow', guardedKjl, 20),
    ...both('ocsvm', 'OddFlow', svm, 2),
    { what: 'oc-kjl', side: 'typed arrays', precision: 'f64', score: scorer(kjl.f64, false), repeats: 5 },
    { what: 'ocsvm', side: 'typed arrays', precision: 'f64', score: scorer(svm.f64, false), repeats: 1 },
  ]
}

function timeScores(
  { rows }: SpeedModels,
  score: Score,
  batch: number,
  repeats: number,
): z.infer<typeof scored> {
  const { cols } = rows
  const parts = Array.from({ length: rows.rows / batch }, (_, i) =>
    matrixOf(batch, cols, rows.data.slice(i * batch * cols, (i + 1) * batch * cols)),
  )
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
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1e6
}

/** Ours come first. */
function holdSum(sums: Map<string, number>, head: Omit<SpeedFigure, 'nanos'>, sum: number): void {
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
