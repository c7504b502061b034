/** `compare`. */
import { Command, Option } from 'commander'
import { whole, withDetectors } from '../commands/options.js'

export function compareCommand(): Command {
  const command = new Command('compare')
    .description('compare all detectors on your own captures or rows, in one table')
    .argument('[table]', 'normal and novel rows, .csv or .npy; needs --labels')
    .option(
      '--labels <column|file>',
      'labels of the table: a column of the .csv, or a .npy; 0 is normal, 1 is novel',
    )
    .option('--train <files...>', 'normal captures, or .csv or .npy rows, to train on')
    .option('--normal <files...>', 'other normal captures or rows, to judge')
    .option('--novel <files...>', 'novel captures or rows, to judge')
  return withDetectors(command)
    .option('--seeds <count>', 'number of seeds for models and for the split of a table', whole(1, 100), 3)
    .addOption(
      new Option('--format <format>', 'markdown, csv or tex')
        .choices(['markdown', 'csv', 'tex'])
        .default('markdown'),
    )
    .addHelpText(
      'after',
      `
Examples:
  oddflow-bench compare --train mon.pcap tue.pcap --normal wed.pcap --novel scan.pcap
  oddflow-bench compare --train train.npy --normal normal.npy --novel novel.npy --detectors ensemble,ocsvm
  oddflow-bench compare flows.csv --labels attack --format tex

A row is one line of finite numbers; each file has as many columns as the others. Half of a table's normal rows,
chosen by the seed, are for training; all other rows are judged. Captures become flow summaries, as in oddflow train.`,
    )
    .action(async (table, options) => {
      const { compare } = await import('../commands/compare.js')
      process.exitCode = await compare(table, options)
    })
}
