/** `train`. */
import { Command, Option } from 'commander'
import { withDetectorFlags } from '../detector-flags.js'
import {
  INPUT_HELP,
  inputs,
  number,
  whole,
  withCaptureFlags,
  withFlowFlags,
  withFlowMemory,
  withFormat,
  withShortHelp,
} from '../flags.js'
import { RECIPES } from '../recipes.js'
import { withSelectionFlags } from '../selection/selection-flags.js'

const ESSENTIAL = [
  'output',
  'recipe',
  'fpr',
  'seed',
  'format',
  'filter',
  'continuous',
  'features',
  'protocols',
  'detector',
]

export function trainCommand(): Command {
  const command = new Command('train')
    .description('learn normal behavior and write a model file')
    .addArgument(inputs())
    .requiredOption('-o, --output <model>', 'the model file to write; - for standard output')
    .addOption(
      new Option(
        '--recipe <name>',
        'preset of options, which single options override: default, paper (its text) or authors (their code: IPv4 flows of one direction)',
      )
        .choices(Object.keys(RECIPES))
        .default('default'),
    )
    .option('--fpr <rate>', 'share of normal flows that may be flagged; sets the threshold', number, 0.01)
    .option(
      '--calibration-share <share>',
      'share of rows left out of the fit to set the threshold, in whole inputs if there are five or more (default: 0.2; an ensemble holds out each input in turn instead)',
      number,
    )
    .option('--seed <number>', 'seed of all randomness: same seed, same model', whole, 1)
  withFlowFlags(withCaptureFlags(withFormat(command, ['text', 'json'])), 'split')
  withFlowMemory(
    command,
    'memory for open flows (flow-summary; default: 512M), or for the packets of all flows (other feature sets; default: 1G); training stops when it is full',
  )
  return withShortHelp(withSelectionFlags(withDetectorFlags(command)), ESSENTIAL)
    .addHelpText(
      'after',
      `
${INPUT_HELP} Several captures are independent: no flow crosses files. Train on two or more.
If the first line of a .csv is the one that extract writes, its service column is read as names, not as numbers.

Examples:
  oddflow train normal.pcap -o camera.oddflow
  oddflow train day-*.pcap.gz -o camera.oddflow --filter "host 192.168.1.20" --fpr 0.001
  oddflow train rows.npy -o rows.oddflow --detector oc-nystrom-qs --scaler standard
  oddflow train normal.pcap -o paper.oddflow --recipe paper
  oddflow train normal.pcap -o best.oddflow --select-normal other-day.pcap --select-novel attacks.pcap
  oddflow train ring-*.pcap -o camera.oddflow --continuous --features stats-header
  oddflow train gtp.pcap -o inner.oddflow --decap inner --join-fragments`,
    )
    .action(async (files: string[], options) => (await import('../commands/train.js')).train(files, options))
}
