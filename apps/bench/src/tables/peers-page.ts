/** The one-class SVMs of others beside ours on the same rows, as a page. */
import { sha256 } from '../machines/digest.js'
import { PEERS, type PeerReading } from '../peers/peer-reading.js'
import { fixed } from './figures.js'
import { markdownTable, plainText } from './markdown.js'

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

The last two ratios are theirs ÷ ours: training, and the median pass over the timed test rows. Our training time has the search
for the bandwidth in it, theirs has not; libsvm's is that of the whole program, with reading and writing its files, and it has no
detection time because svm-predict gives no scores of one-class models. Above one a CPU in the last column, other work shared the
machine.

${details(readings)}

SHA-256 of the readings ${sha256(readings.map((reading) => `${JSON.stringify(reading)}\n`).join(''))}.
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
  const rows = readings.map((r) => [
    `${r.dataset}, repeat ${r.repeat}`,
    `${r.tuning}, ${r.bandwidthQuantile ?? 'none'}`,
    r.version,
    fixed(r.theirs.auc, 4),
    fixed(r.ours.auc, 4),
    `${fixed(differenceOf(r), 5)} ${agrees(r) ? '✓' : '✗'}`,
    `${r.theirs.supportVectors}`,
    `${r.ours.supportVectors}`,
    fixed(r.theirs.trainMillis / r.ours.trainMillis, 2),
    r.theirs.testMillis === null || r.ours.testMillis === null
      ? 'none'
      : fixed(r.theirs.testMillis / r.ours.testMillis, 2),
    r.loadAverage === null ? 'not told' : fixed(r.loadAverage, 1),
  ])
  const header = ['', 'tuning, quantile', 'peer', 'their AUC', 'our AUC', 'difference', 'their SV', 'our SV']
  return markdownTable([...header, 'training', 'detection', 'load'], rows, 3)
}
