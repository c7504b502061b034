/** `oddflow-bench embeddings`: what the paper's two pictures of embeddings are drawn from, into one file. */

import { Command } from 'commander'
import { availableManifests } from '../datasets/load-repeat.js'
import { measureClusterInCluster, measureMixture, writeEmbeddings } from '../embeddings.js'
import { createProgress, note } from '../output.js'
import { type CommandOptions, names, RESULTS, whole, withData, withSeed } from './options.js'
import { SWEEP_DATASETS } from './sweep.js'

export function embeddingsCommand(): Command {
  const command = withData(new Command('embeddings'))
    .description(
      "compute the points of two of the paper's pictures: embeddings of the set Cluster in Cluster, and mixtures over embedded rows",
    )
    .option('--datasets <names>', 'data sets for the mixtures, separated by commas', names, [
      ...SWEEP_DATASETS,
    ])
    .option(
      '--draws <count>',
      'number of random draws of landmarks and sketch for Cluster in Cluster',
      whole(1, 1000),
      20,
    )
  return withSeed(command)
    .option('--out <file>', 'file for the figures', `${RESULTS}/embeddings.json`)
    .addHelpText('after', '\nExample:\n  oddflow-bench embeddings\n  oddflow-bench tables    # draws them')
    .action((options) => {
      embeddings(options)
    })
}

interface EmbeddingsOptions extends Pick<CommandOptions, 'data' | 'manifests' | 'datasets' | 'seed'> {
  readonly draws: number
  readonly out: string
}

export function embeddings(options: EmbeddingsOptions): void {
  const { data, seed, draws, out } = options
  const manifests = availableManifests(options)
  const detectors = ['oc-kjl-qs', 'oc-nystrom-qs'] as const
  const progress = createProgress()
  progress.start(1 + manifests.length * detectors.length)
  try {
    const clusterInCluster = measureClusterInCluster(seed, draws)
    let done = 1
    progress.update(done, 'cluster in cluster')
    const mixtures = manifests.flatMap((manifest) =>
      detectors.map((detector) => {
        const picture = measureMixture(manifest, detector, data, seed)
        progress.update(++done, `${manifest.name} ${detector}`)
        return picture
      }),
    )
    writeEmbeddings(out, { format: 1, seed, clusterInCluster, mixtures })
    progress.stop()
    note(`${out}: cluster in cluster, ${mixtures.length} mixtures; draw them with: oddflow-bench tables`)
  } finally {
    progress.stop()
  }
}
