/** `extract`. */
import { Argument, Command, Option } from 'commander'
import { withCaptureFlags, withFlowFlags, withFlowMemory } from '../flags.js'
import { RECIPES } from '../recipes.js'

export function extractCommand(): Command {
  const command = new Command('extract')
    .description('turn captures into feature rows, or into flow records')
    .addArgument(new Argument('<capture...>', 'captures; - is standard input'))
    .requiredOption(
      '-o, --output <file>',
      'rows: .npy, .csv, or - for .csv on standard output; flow records: .jsonl, .csv, .parquet, .npy, or - for .jsonl on standard output',
    )
    .option('--flows', "write flow records of all transports, with the field names of Zeek's conn.log")
    .option('--model <model>', 'make the rows of this model, and learn nothing from these captures')
    .addOption(
      new Option(
        '--recipe <name>',
        'preset of options, which single options override: default, paper, or authors (IPv4 flows of one direction)',
      ).choices(Object.keys(RECIPES)),
    )
  withFlowMemory(
    command,
    'memory for flows: with --flows for open flows, and when it is full the least active flows end early (default: 32M); otherwise for the packets of all flows (default: 1G)',
  )
  return withFlowFlags(withCaptureFlags(command), 'truncate')
    .addHelpText(
      'after',
      `
Rows are the flow summaries that train learns from. In a .csv, train recognizes the service column by its name. With
--features iat-size and other packet feature sets, extract learns the duration and the width of a row from these
captures. It then makes one row from the beginning of each flow, as the paper does (whose unit is --iat-unit us).
--model makes the rows of a model.

Examples:
  oddflow extract normal.pcap -o rows.csv
  oddflow extract today.pcap -o rows.csv --model camera.oddflow
  oddflow extract normal.pcap -o rows.csv --features stats-header --iat-unit us
  oddflow extract normal.pcap -o paper.npy --recipe paper
  oddflow extract normal.pcap -o authors.npy --recipe authors
  oddflow extract --flows today.pcap -o flows.parquet
  oddflow extract --flows today.pcap -o - | jq -r .community_id`,
    )
    .action(async (files: string[], options) =>
      (await import('../commands/extract.js')).extract(files, options),
    )
}
