/** `embeddings`. */
import { Command } from 'commander'
import { names, RESULTS, whole, withData, withSeed } from '../commands/options.js'
import { SWEEP_DATASETS } from '../commands/sweep.js'

export function embeddingsCommand(): Command {
  const command = withData(new Command('embeddings'))
    .description(
      "what the paper's pictures of embeddings show: Cluster in Cluster, mixtures over embedded rows",
    )
    .option('--datasets <names>', 'of the mixtures, separated by commas', names, [...SWEEP_DATASETS])
    .option('--draws <count>', 'draws of landmarks and sketch over Cluster in Cluster', whole(1, 1000), 20)
  return withSeed(command)
    .option('--out <file>', 'where the figures are kept', `${RESULTS}/embeddings.json`)
    .addHelpText('after', '\nExample:\n  oddflow-bench embeddings\n  oddflow-bench tables    # draws them')
    .action(async (options) => {
      const { embeddings } = await import('../commands/embeddings.js')
      embeddings(options)
    })
}
