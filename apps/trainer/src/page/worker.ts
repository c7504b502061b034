/**
 * The page's worker, which does all the work: it reads captures, trains, judges, and sends what the page shows. The page
 * itself never waits for more than a message.
 */
import { categoryColumn, createMatrix, type Matrix } from '@oddflow/core'
import { rememberedRows, type SavedModel } from '@oddflow/detectors'
import { symmetricEigen } from '@oddflow/linalg'
import { createFlowExplainer, findDetectionLimits } from '@oddflow/program'
import { type Flow, fit as fitModel, loadModel, type Model, readFlows } from '../browser.js'
import { TrainedModel } from '../library/model.js'
import { RowSample, rowMatrix } from '../library/rows.js'
import { limitFacts, limitWarnings } from '../output/describe-limits.js'

/** What the page asks for. */
export type Request =
  | { readonly kind: 'read' | 'judge'; readonly files: readonly File[] }
  | { readonly kind: 'load'; readonly file: File }
  | { readonly kind: 'train' }

/** What the worker sends. */
export type Answer =
  | { readonly kind: 'progress'; readonly text: string; readonly share: number | null }
  | { readonly kind: 'read'; readonly normal: Reading }
  | { readonly kind: 'model'; readonly model: ModelFacts }
  | { readonly kind: 'limits'; readonly limits: readonly Fact[]; readonly warnings: readonly string[] }
  | { readonly kind: 'judged'; readonly judged: Judged }
  | { readonly kind: 'done' }
  | { readonly kind: 'error'; readonly text: string }

export interface Fact {
  readonly label: string
  readonly value: string
}

/** The flows of some captures. */
export type Reading = ReturnType<Summary['end']>
export type Histogram = ReturnType<typeof histogramOf>
export type FlowRow = ReturnType<typeof rowOf>
export type FlowMap = NonNullable<ReturnType<typeof mapOf>>

export interface ModelFacts {
  readonly facts: readonly Fact[]
  readonly notes: readonly string[]
  readonly file: Blob
}

export interface Judged extends Reading {
  readonly novel: number
  readonly map: FlowMap | null
}

/** More would take more memory than a browser's tab should have. */
const MOST_FLOWS = 300_000
const SHOWN_ROWS = 50
const MAP_FLOWS = 2000
const BINS = 60
const BATCH_FLOWS = 1024
const MILLIS_BETWEEN_REPORTS = 100

let normalFlows: Flow[] = []
let model: Model | null = null

const send = (answer: Answer): void => self.postMessage(answer)

/** The requests come one at a time: the page waits for `done`. */
self.onmessage = async ({ data }: MessageEvent<Request>) => {
  try {
    if (data.kind === 'read') await read(data.files)
    else if (data.kind === 'judge') await judge(data.files)
    else if (data.kind === 'load') useModel(await loadModel(data.file))
    else train()
  } catch (error) {
    send({ kind: 'error', text: error instanceof Error ? error.message : String(error) })
  }
  send({ kind: 'done' })
}

async function read(files: readonly File[]): Promise<void> {
  normalFlows = []
  const summary = createSummary(files)
  for await (const flow of flowsOf(files, summary, null)) {
    if (normalFlows.length === MOST_FLOWS) {
      normalFlows = []
      throw new Error(
        `these captures have more than ${MOST_FLOWS.toLocaleString('en-US')} flows: take a shorter one, or use the command oddflow train`,
      )
    }
    normalFlows.push(flow)
    summary.add(flow, false)
  }
  send({ kind: 'read', normal: summary.end(normalFlows.slice(0, SHOWN_ROWS).map((flow) => rowOf(flow))) })
}

function train(): void {
  send({ kind: 'progress', text: 'Training', share: null })
  useModel(fitModel(normalFlows))
}

function useModel(made: Model): void {
  const saved = TrainedModel.savedOf(made)
  model = made
  send({
    kind: 'model',
    model: {
      facts: [
        { label: 'Detector', value: made.detector },
        { label: 'Trained on', value: `${saved.provenance.rows.toLocaleString('en-US')} flows` },
        { label: 'Flags', value: `about ${100 * saved.threshold.falsePositiveRate} % of normal flows` },
      ],
      notes: made.notes,
      file: new Blob([made.toBytes()], { type: 'application/octet-stream' }),
    },
  })
  send({ kind: 'progress', text: 'Trying synthetic attacks on the model', share: null })
  const limits = findDetectionLimits(saved)
  send({ kind: 'limits', limits: limitFacts(limits).slice(1), warnings: limitWarnings(limits) })
}

async function judge(files: readonly File[]): Promise<void> {
  const judging = model!
  const saved = TrainedModel.savedOf(judging)
  const summary = createSummary(files)
  const worst: { readonly flow: Flow; readonly score: number }[] = []
  const sample = new RowSample(judging.columns, MAP_FLOWS)
  let novel = 0
  const judgeBatch = (batch: readonly Flow[]): void => {
    const scores = judging.score(batch)
    batch.forEach((flow, i) => {
      const score = scores[i]!
      const isNovel = Number.isNaN(score) ? judging.isNovel(flow) : score <= judging.threshold
      summary.add(flow, isNovel)
      if (flow.features !== null && !isNovel) sample.add(flow.features)
      if (!isNovel) return
      novel++
      worst.push({ flow, score: Number.isNaN(score) ? judging.threshold : score })
    })
    if (worst.length > 2 * MAP_FLOWS) keepWorst(worst)
  }
  let batch: Flow[] = []
  for await (const flow of flowsOf(files, summary, judging)) {
    batch.push(flow)
    if (batch.length < BATCH_FLOWS) continue
    judgeBatch(batch)
    batch = []
  }
  judgeBatch(batch)
  keepWorst(worst)
  const explain = createFlowExplainer(saved)
  const rows = worst.slice(0, SHOWN_ROWS).map(({ flow, score }) => {
    const { features: row } = flow
    if (row === null) return rowOf(flow, ['one packet to a service that training did not have'])
    const packets = flow.initiator.packets + flow.responder.packets
    const { reasons } = explain({ row, score, threshold: judging.threshold, packets })
    return rowOf(flow, reasons.length > 0 ? reasons : ['unlike normal flows as a whole'])
  })
  const novelRows = rowMatrix(
    worst.flatMap(({ flow }) => flow.features ?? []),
    judging.columns,
  )
  send({
    kind: 'judged',
    judged: { ...summary.end(rows), novel, map: mapOf(saved, sample.matrix(), novelRows) },
  })
}

function keepWorst(flows: { readonly score: number }[]): void {
  flows.sort((a, b) => a.score - b.score)
  flows.length = Math.min(flows.length, MAP_FLOWS)
}

// ---- captures

type Summary = ReturnType<typeof createSummary>

function createSummary(files: readonly File[]) {
  const starts: number[] = []
  const novelStarts: number[] = []
  const warnings: string[] = []
  let packets = 0
  let dropped: Fact[] = []
  return {
    warnings,
    add({ startMicros }: Flow, isNovel: boolean): void {
      starts.push(startMicros)
      if (isNovel) novelStarts.push(startMicros)
    },
    count(counters: NonNullable<ReturnType<typeof readFlows>['counters']>): void {
      packets = counters.packets
      dropped = Object.entries(counters.dropped).map(([label, count]) => ({
        label: label.replaceAll('-', ' '),
        value: (count ?? 0).toLocaleString('en-US'),
      }))
    },
    /** @param rows a few flows */
    end(rows: readonly FlowRow[]) {
      const names = files.map(({ name }) => name)
      return {
        names,
        flows: starts.length,
        packets,
        /** Packets that are in no flow, by reason. */
        dropped: dropped as readonly Fact[],
        warnings: warnings as readonly string[],
        times: histogramOf(starts, novelStarts),
        rows,
      }
    },
  }
}

/** Flows, and novel ones of these, that began in each of equal parts of the time. */
function histogramOf(starts: readonly number[], novelStarts: readonly number[]) {
  let beginMicros = Number.POSITIVE_INFINITY
  let endMicros = Number.NEGATIVE_INFINITY
  for (const start of starts) {
    beginMicros = Math.min(beginMicros, start)
    endMicros = Math.max(endMicros, start)
  }
  const binOf = (start: number): number =>
    Math.min(BINS - 1, Math.floor((BINS * (start - beginMicros)) / Math.max(1, endMicros - beginMicros)))
  const count = (times: readonly number[]): number[] => {
    const counts = new Array<number>(BINS).fill(0)
    for (const time of times) counts[binOf(time)]!++
    return counts
  }
  return { beginMicros, endMicros, counts: count(starts), novel: count(novelStarts) }
}

/** The flows of the files; reports how far it is. */
async function* flowsOf(
  files: readonly File[],
  summary: Summary,
  judging: Model | null,
): AsyncGenerator<Flow> {
  const totalBytes = files.reduce((sum, { size }) => sum + size, 0)
  let doneBytes = 0
  let flows = 0
  let reported = 0
  const report = (length: number): void => {
    doneBytes += length
    const now = performance.now()
    if (now - reported < MILLIS_BETWEEN_REPORTS) return
    reported = now
    const text = `${Math.floor((100 * doneBytes) / totalBytes)} % read, ${flows.toLocaleString('en-US')} flows`
    send({ kind: 'progress', text, share: doneBytes / totalBytes })
  }
  const counted = files.map((file) => ({
    name: file.name,
    arrayBuffer: () => file.arrayBuffer(),
    stream: () =>
      file.stream().pipeThrough(
        new TransformStream<Uint8Array, Uint8Array>({
          transform(block, controller) {
            report(block.length)
            controller.enqueue(block)
          },
        }),
      ),
  }))
  const reading = readFlows(counted, {
    ...(judging === null ? {} : { model: judging }),
    onWarning: (text) => summary.warnings.push(text),
  })
  for await (const flow of reading) {
    flows++
    yield flow
  }
  summary.count(reading.counters!)
}

/** @param reasons why the flow is novel */
function rowOf(flow: Flow, reasons: readonly string[] = []) {
  const { startMicros, durationMicros, protocol, initiator, responder } = flow
  const end = ({ address, port }: Flow['initiator']): string =>
    address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
  return {
    startMicros,
    durationMicros,
    protocol,
    initiator: end(initiator),
    responder: end(responder),
    packets: initiator.packets + responder.packets,
    bytes: initiator.bytes + responder.bytes,
    reasons,
  }
}

// ---- map

/**
 * The two principal components of the normal flows that the model remembers, columns standardized; null for a model
 * that remembers too few. Points are x0, y0, x1, y1, … in units of the normal flows' spread.
 */
function mapOf({ detector, contract }: SavedModel, normal: Matrix, novel: Matrix) {
  const remembered = rememberedRows(detector)
  if (remembered === null || remembered.rows < 3) return null
  const service = categoryColumn(contract)
  const columns = Array.from({ length: remembered.cols }, (_, j) => j).filter((j) => j !== service)
  const { mean, scale } = momentsOf(remembered, columns)
  const place = (row: Float64Array, at: number): Float64Array =>
    Float64Array.from(columns, (j, i) => (row[at + j]! - mean[i]!) / scale[i]!)
  const d = columns.length
  const covariance = createMatrix(d, d)
  for (let r = 0; r < remembered.rows; r++) {
    const z = place(remembered.data, r * remembered.cols)
    for (let i = 0; i < d; i++) for (let j = 0; j < d; j++) covariance.data[i * d + j]! += z[i]! * z[j]!
  }
  const { vectors } = symmetricEigen(covariance, Math.min(2, d))
  const projected = ({ rows, cols, data }: Matrix): Float32Array => {
    const out = new Float32Array(2 * rows)
    for (let r = 0; r < rows; r++) {
      const z = place(data, r * cols)
      for (let axis = 0; axis < vectors.rows; axis++) {
        out[2 * r + axis] = z.reduce((sum, value, i) => sum + value * vectors.data[axis * d + i]!, 0)
      }
    }
    return out
  }
  return { remembered: projected(remembered), normal: projected(normal), novel: projected(novel) }
}

function momentsOf({ rows, cols, data }: Matrix, columns: readonly number[]) {
  const moments = columns.map((j) => {
    let sum = 0
    let squares = 0
    for (let i = 0; i < rows; i++) sum += data[i * cols + j]! / rows
    for (let i = 0; i < rows; i++) squares += (data[i * cols + j]! - sum) ** 2 / rows
    return { mean: sum, scale: Math.sqrt(squares) || 1 }
  })
  return { mean: moments.map(({ mean }) => mean), scale: moments.map(({ scale }) => scale) }
}
