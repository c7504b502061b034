/** `train`. */
import { Command, Option } from 'commander'
import { withCaptureFlags, withFlowMemory } from '../capture-flags.js'
import { withDetectorFlags } from '../detector-flags.js'
import { withFlowFlags } from '../flow-flags.js'
import { number, whole } from '../option-values.js'
import { RECIPES } from '../recipes.js'
import { withSelectionFlags } from '../selection/selection-flags.js'
import { INPUT_HELP, inputs, withFormat } from './shared-options.js'

export function trainCommand(): Command {
  const command = new Command('train')
    .description('learn normal behaviour and write a model file')
    .addArgument(inputs())
    .requiredOption('-o, --output <model>', 'the model file to write; - for standard output')
    .addOption(
      new Option(
        '--recipe <name>',
        'preset that single options override; authors makes flows of one direction, of IPv4 alone',
      )
        .choices(Object.keys(RECIPES))
        .default('default'),
    )
    .option('--fpr <rate>', 'false-positive tolerance that sets the threshold', number, 0.01)
    .option(
      '--calibration-share <share>',
      'share of rows kept from the fit to set the threshold; of five inputs and more, whole ones are kept, up to twice the share (default: 0.2; an ensemble holds each input out in turn instead)',
      number,
    )
    .option('--seed <number>', 'seed of all randomness: same seed, same model', whole, 1)
  withFlowFlags(withCaptureFlags(withFormat(command, ['text', 'json'])), 'split')
  withFlowMemory(
    command,
    'memory for the packets of all flows; if that is too little, training stops (default: 1G)',
  )
  return withSelectionFlags(withDetectorFlags(command))
    .addHelpText(
      'after',
      `
${INPUT_HELP} Several captures are independent: flows never cross files.

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
