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
      'rows: .npy, .csv, or - for .csv on standard output; flow records: .jsonl, .csv, .parquet, .npy, or - for .jsonl there',
    )
    .option('--flows', "write flow records, under the names of Zeek's conn.log, of all transports")
    .option('--model <model>', 'make the rows of this model, and learn nothing from these captures')
    .addOption(
      new Option(
        '--recipe <name>',
        'preset of options, which single options override: default, paper, or authors (IPv4 flows of one direction)',
      ).choices(Object.keys(RECIPES)),
    )
  withFlowMemory(
    command,
    'memory for flows: with --flows for open flows, of which the least active end early when it is full (default: 32M); else for the packets of all flows (default: 1G)',
  )
  return withFlowFlags(withCaptureFlags(command), 'truncate')
    .addHelpText(
      'after',
      `
Rows are the flow summaries that train learns from; as .csv, train knows their service column by its name. With
--features iat-size and other sets of packets, extract learns the duration and the width of a row from these captures,
and makes one row of the beginning of each flow, as the paper does (its unit is --iat-unit us). --model makes the rows
of a model.

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
