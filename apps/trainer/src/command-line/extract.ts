/** `extract`. */
import { Argument, Command, Option } from 'commander'
import { withCaptureFlags, withFlowMemory } from '../capture-flags.js'
import { withFlowFlags } from '../flow-flags.js'
import { RECIPES } from '../recipes.js'

export function extractCommand(): Command {
  const command = new Command('extract')
    .description('turn captures into feature rows, or into flow records')
    .addArgument(new Argument('<capture...>', 'captures; - is standard input'))
    .requiredOption(
      '-o, --output <file>',
      'rows: .npy, .csv, or - for .csv on standard output; flow records: .jsonl, .csv, .parquet, .npy, or - for .jsonl there',
    )
    .option('--flows', "write flow records, under the names of Zeek's conn.log, of all transports")
    .option('--model <model>', "use a model's feature contract instead of learning one from these captures")
    .addOption(
      new Option(
        '--recipe <name>',
        'preset that single options override (default: that of train, but truncating as the paper does); authors makes flows of one direction, of IPv4 alone',
      ).choices(Object.keys(RECIPES)),
    )
  withFlowMemory(
    command,
    'memory for flows: with --flows open ones, beyond it the least active are ended early (default: 32M); else the packets of all (default: 1G)',
  )
  return withFlowFlags(withCaptureFlags(command), 'truncate')
    .addHelpText(
      'after',
      `
Without --model, the duration that flows are cut at and the packets of a row are learned from these captures, and
a flow is truncated: one row of its beginning, the paper's with --iat-unit us. train splits long flows into rows;
--recipe default makes the same rows here, and --model those of the model, learning nothing.

Examples:
  oddflow extract normal.pcap -o rows.npy
  oddflow extract today.pcap -o rows.csv --model camera.oddflow
  oddflow extract normal.pcap -o rows.csv --features stats-header --iat-unit us
  oddflow extract normal.pcap -o trained-on.npy --recipe default
  oddflow extract normal.pcap -o authors.npy --recipe authors
  oddflow extract --flows today.pcap -o flows.parquet
  oddflow extract --flows today.pcap -o - | jq -r .community_id`,
    )
    .action(async (files: string[], options) =>
      (await import('../commands/extract.js')).extract(files, options),
    )
}
