/** What the pages of all sweeps have alike: where their figures come from, pictures, sections a data set, the footer. */
import type { Trial } from '@oddflow/evaluation'
import type { SweepName } from '../sweep/names.js'
import { datasetsOf, type SweepPoint, sweepFooter } from './sweep-points.js'
import { hashTrials } from './table.js'

export interface SweepPage {
  readonly title: string
  readonly about: string
  /** In Markdown. */
  readonly pictures: readonly string[]
  /** `points` are those of the data set. */
  sections(dataset: string, points: readonly SweepPoint[]): readonly string[]
}

export function renderSweepPage(
  name: SweepName,
  trials: readonly Trial[],
  points: readonly SweepPoint[],
  { title, about, pictures, sections }: SweepPage,
): string {
  const parts = [
    `# ${title}`,
    `Written by \`oddflow-bench tables\` from [sweep-${name}.jsonl](sweep-${name}.jsonl), which \`oddflow-bench sweep ${name}\` writes; nothing here is typed in by hand.`,
    about,
    ...pictures,
    ...datasetsOf(points).flatMap((dataset) =>
      sections(
        dataset,
        points.filter((p) => p.dataset === dataset),
      ),
    ),
    sweepFooter(trials, hashTrials(trials).trialsSha256),
  ]
  return `${parts.join('\n\n')}\n`
}
