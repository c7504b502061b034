/** The one-class SVMs of others beside ours on the same rows, as a page. */
import { jsonLines } from '../files.js'
import { sha256 } from '../machines/work.js'
import { PEERS, type PeerReading } from '../peers/run-peers.js'
import type { SpeedReading } from '../peers/speed.js'
import { fixed, markdownTable, plainText, tableOf } from './table.js'

const SCORES = [
  ['oc-kjl', 'OC-KJL'],
  ['ocsvm', 'OCSVM'],
] as const
const BATCHES = [
  [100, 'batches of 100'],
  [1, 'one flow a call'],
] as const
const C_SIDES = ['C, 32-byte vectors', 'C, 16-byte vectors', 'C, plain', 'C, 32 bytes and FMA']

export function renderPeersSpeedPage(readings: readonly SpeedReading[]): string {
  const about = readings[0]!
  const nanosOf = (what: string, side: string, precision: string, batch: number | null): number | null =>
    readings.find((r) => r.what === what && r.side === side && r.precision === precision && r.batch === batch)
      ?.nanos ?? null
  return `# Speed beside numpy, scikit-learn and C, as measured last

Written by \`oddflow-bench tables\` from [peers-speed.jsonl](peers-speed.jsonl), which \`oddflow-bench peers speed\` writes; nothing here
is typed in by hand. What the figures mean, and an earlier run, stand in [speed.md](speed.md).

${about.dataset}: n = ${about.trainRows}, D = ${about.dimension}, m = ${about.m}, d = ${about.d}, k = ${about.k}, ${about.supportVectors} support vectors. ${plainText(about.cpu)}, Node ${about.node}; ${about.python ?? 'no Python with scikit-learn'}; ${about.compiler ?? 'no C compiler'}.
One thread a side; sides take turns, CPU time, medians of ${about.rounds} rounds; load average ${fixed(about.loadBefore, 1)} before, ${fixed(about.loadAfter, 1)} after: other work makes single times too long, ratios suffer less.${about.absent.length === 0 ? '' : ` Absent: ${about.absent.join(', ')}.`}

${besidePython(nanosOf)}

How far from native code, as our time ÷ that of C with the same arithmetic:

${besideC(nanosOf)}

SHA-256 of the figures ${sha256(jsonLines(readings))}.
`
}

type NanosOf = (what: string, side: string, precision: string, batch: number | null) => number | null

function besidePython(nanosOf: NanosOf): string {
  const ours = (what: string, batch: number | null) => [
    nanosOf(what, 'OddFlow', 'f64', batch),
    nanosOf(what, 'OddFlow', 'f32', batch),
  ]
  const line = (title: string, own: readonly (number | null)[], beside: string, theirs: typeof own) => [
    title,
    ...own.map(time),
    beside,
    ...own.map((nanos, i) => ratio(theirs[i]!, nanos)),
  ]
  const scores = SCORES.flatMap(([what, name]) =>
    BATCHES.flatMap(([batch, calls]) => {
      const own = ours(what, batch)
      const lines = ['numpy', 'scikit-learn', 'typed arrays'].flatMap((side) => {
        if (side === 'scikit-learn' && (what !== 'ocsvm' || batch !== 100)) return []
        const theirs = nanosOf(what, side, 'f64', batch)
        return [line(`${name} score, ${calls}`, own, `${time(theirs)} (${side})`, [theirs, theirs])]
      })
      if (what !== 'oc-kjl') return lines
      const svm = ours('ocsvm', batch)
      const title = `${name} against our own OCSVM, ${calls}`
      return [...lines, line(title, own, svm.map(time).join(', '), svm)]
    }),
  )
  const theirs = nanosOf('ocsvm fit', 'scikit-learn', 'f64', null)
  const fits = [
    ['oc-kjl-qs fit', 'OC-KJL-QS training'],
    ['ocsvm fit', 'OCSVM training, bandwidth search included'],
  ].map(([what, title]) => {
    const own = nanosOf(what!, 'OddFlow', 'f64', null)
    return [
      title!,
      time(own),
      '',
      `${time(theirs)} (OneClassSVM.fit, bandwidth given)`,
      ratio(theirs, own),
      '',
    ]
  })
  const header = ['what', 'OddFlow f64', 'f32', 'beside it', 'times faster: f64', 'f32']
  return markdownTable(header, [...scores, ...fits], 1)
}

function besideC(nanosOf: NanosOf): string {
  const rows = SCORES.flatMap(([what, name]) =>
    ['f64', 'f32'].flatMap((precision) =>
      BATCHES.map(([batch, calls]) => {
        const ours = nanosOf(what, 'OddFlow', precision, batch)
        const cells = C_SIDES.flatMap((side) => {
          const theirs = nanosOf(what, side, precision, batch)
          return [time(theirs), theirs === null || ours === null ? '' : fixed(ours / theirs, 2)]
        })
        return [`${name} ${precision}, ${calls}`, time(ours), ...cells]
      }),
    ),
  )
  return markdownTable(['what', 'ours', ...C_SIDES.flatMap((side) => [side, 'multiple'])], rows, 1)
}

function time(nanos: number | null): string {
  if (nanos === null) return 'absent'
  if (nanos >= 1e8) return `${fixed(nanos / 1e6, 0)} ms`
  return nanos < 10_000 ? `${fixed(nanos, 0)} ns` : `${fixed(nanos / 1000, 1)} µs`
}

const ratio = (theirs: number | null, ours: number | null): string =>
  theirs === null || ours === null ? '' : `${fixed(theirs / ours, 2)}×`

/** What the AUCs may differ by. */
const ALLOWED = 0.01
const TUNINGS = { none: 'no tuning', minimal: 'minimal tuning' } as const

const differenceOf = ({ ours, theirs }: PeerReading): number => ours.auc - theirs.auc
const agrees = (reading: PeerReading): boolean => Math.abs(differenceOf(reading)) <= ALLOWED

export function renderPeersPage(readings: readonly PeerReading[]): string {
  const absent = PEERS.filter((peer) => readings.every((reading) => reading.peer !== peer))
  const agree = readings.filter(agrees).length
  const machines = [...new Set(readings.map(({ cpu, node }) => plainText(`${cpu}, Node ${node}`)))]
    .sort()
    .join('; ')
  return `# The one-class SVMs of others on the same rows

Written by \`oddflow-bench tables\` from [peers.jsonl](peers.jsonl), which \`oddflow-bench peers\` writes; nothing here is typed in by hand.

The same training and test rows, bandwidth, nu = 0.5 and tolerance, one after the other in one run. Without tuning the bandwidth
is the 0.25-quantile of pair distances; tuned, the quantile that the trial of [trials.jsonl](trials.jsonl) chose, and our AUC here is
that trial's to the last bit. AUC over all test rows; ✓: the AUCs differ by no more than ${ALLOWED}.

${summary(readings)}

${agree} of ${readings.length} agree.${absent.length === 0 ? '' : ` Absent, not installed where this was run: ${absent.join(', ')}.`} ${machines}.

The last two ratios are theirs ÷ ours: training, and the median pass over the timed test rows. Our training time includes the search
for the bandwidth, theirs does not; libsvm's is that of the whole program, with reading and writing its files, and it has no
detection time because svm-predict gives no scores of one-class models. Above one a CPU in the last column, other work shared the
machine.

${details(readings)}

SHA-256 of the readings ${sha256(jsonLines(readings))}.
`
}

/** A line for each peer and tuning, with the largest difference on each data set. */
function summary(readings: readonly PeerReading[]): string {
  const datasets = [...new Set(readings.map(({ dataset }) => dataset))].sort()
  const rows = PEERS.flatMap((peer) =>
    (['none', 'minimal'] as const).flatMap((tuning) => {
      const same = readings.filter((r) => r.peer === peer && r.tuning === tuning)
      if (same.length === 0) return []
      const cells = datasets.map((dataset) => {
        const own = same.filter((r) => r.dataset === dataset)
        if (own.length === 0) return 'not run'
        return `${fixed(Math.max(...own.map((r) => Math.abs(differenceOf(r)))), 5)} of ${own.length}`
      })
      return [[`${peer}, ${TUNINGS[tuning]}`, ...cells, `${same.filter(agrees).length} of ${same.length}`]]
    }),
  )
  return markdownTable(['largest difference of AUC, repeats', ...datasets, 'agree'], rows, 1)
}

function details(readings: readonly PeerReading[]): string {
  const detection = ({ theirs, ours }: PeerReading): string =>
    theirs.testMillis === null || ours.testMillis === null
      ? 'none'
      : fixed(theirs.testMillis / ours.testMillis, 2)
  return tableOf(readings, 3, [
    ['', ({ dataset, repeat }) => `${dataset}, repeat ${repeat}`],
    ['tuning, quantile', ({ tuning, bandwidthQuantile }) => `${tuning}, ${bandwidthQuantile ?? 'none'}`],
    ['peer', ({ version }) => version],
    ['their AUC', ({ theirs }) => fixed(theirs.auc, 4)],
    ['our AUC', ({ ours }) => fixed(ours.auc, 4)],
    ['difference', (r) => `${fixed(differenceOf(r), 5)} ${agrees(r) ? '✓' : '✗'}`],
    ['their SV', ({ theirs }) => `${theirs.supportVectors}`],
    ['our SV', ({ ours }) => `${ours.supportVectors}`],
    ['training', ({ theirs, ours }) => fixed(theirs.trainMillis / ours.trainMillis, 2)],
    ['detection', detection],
    ['load', ({ loadAverage }) => (loadAverage === null ? 'not told' : fixed(loadAverage, 1))],
  ])
}
