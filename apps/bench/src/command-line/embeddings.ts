/** `embeddings`. */
import { Command } from 'commander'
import { names, RESULTS, whole, withData, withSeed } from '../commands/options.js'
import { SWEEP_DATASETS } from '../commands/sweep.js'

export function embeddingsCommand(): Command {
  const command = withData(new Command('embeddings'))
    .description(
      "compute the points of the paper's pictures of embeddings: Cluster in Cluster, mixtures over embedded rows",
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
    .action(async (options) => {
      const { embeddings } = await import('../commands/embeddings.js')
      embeddings(options)
    })
}
