/** The one-class SVMs of others beside ours on the same rows, as a page. */

import { sha256 } from '../machines/digest.js'
import { PEERS, type PeerReading } from '../peers/peer-reading.js'
import { fixed } from './figures.js'
import { markdownTable } from './markdown.js'

/** What the AUCs may differ by. */
const ALLOWED = 0.01

export function renderPeersPage(readings: readonly PeerReading[]): string {
  const absent = PEERS.filter((peer) => readings.every((reading) => reading.peer !== peer))
  const rows = readings.map((r) => [
    `${r.dataset}, repeat ${r.repeat}`,
    r.version,
    fixed(r.theirs.auc, 4),
    fixed(r.ours.auc, 4),
    `${fixed(r.ours.auc - r.theirs.auc, 5)} ${Math.abs(r.ours.auc - r.theirs.auc) <= ALLOWED ? '✓' : '✗'}`,
    `${r.theirs.supportVectors}`,
    `${r.ours.supportVectors}`,
    fixed(r.theirs.trainMillis / r.ours.trainMillis, 2),
    r.theirs.testMillis === null || r.ours.testMillis === null
      ? 'none'
      : fixed(r.theirs.testMillis / r.ours.testMillis, 2),
    r.loadAverage === null ? 'not told' : fixed(r.loadAverage, 1),
  ])
  const agree = readings.filter((r) => Math.abs(r.ours.auc - r.theirs.auc) <= ALLOWED).length
  const machines = [...new Set(readings.map(({ cpu, node }) => `${cpu}, Node ${node}`))].sort().join('; ')
  return `# The one-class SVMs of others on the same rows

Written by \`oddflow-bench tables\` from [peers.jsonl](peers.jsonl), which \`oddflow-bench peers\` writes; nothing here is typed in by hand.

The same training rows, bandwidth (the 0.25-quantile of pair distances), nu = 0.5 and tolerance, one after the other in one
run; AUC over all test rows. ✓: the AUCs differ by no more than ${ALLOWED}. The last two ratios are theirs ÷ ours: training,
and the median pass over the timed test rows. Our training time has the search for the bandwidth in it, theirs has not; libsvm's
is that of the whole program, with reading and writing its files, and it has no detection time because svm-predict gives no
scores of one-class models. Above one a CPU in the last column, other work shared the machine.

${markdownTable(['', 'peer', 'their AUC', 'our AUC', 'difference', 'their SV', 'our SV', 'training', 'detection', 'load'], rows, 2)}

${agree} of ${readings.length} agree.${absent.length === 0 ? '' : ` Absent, not installed where this was run: ${absent.join(', ')}.`} ${machines}.

SHA-256 of the readings ${sha256(readings.map((reading) => `${JSON.stringify(reading)}\n`).join(''))}.
`
}
