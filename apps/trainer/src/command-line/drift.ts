/** `drift`. */
import { Argument, Command } from 'commander'
import { INPUT_HELP, inputs, OPEN_FLOWS, withCaptureFlags, withFlowMemory, withFormat } from '../flags.js'

export function driftCommand(): Command {
  const command = new Command('drift')
    .description('report whether and how traffic has drifted from a model')
    .addArgument(new Argument('<model>', 'a model file'))
    .addArgument(inputs())
  return withFlowMemory(withCaptureFlags(withFormat(command, ['text', 'json']), true), OPEN_FLOWS)
    .addHelpText(
      'after',
      `
${INPUT_HELP} drift needs no labels. It compares the scores with those of the training rows, the share of novel
verdicts with the calibration's promise, and the share of each mixture component with its weight.

Examples:
  oddflow drift camera.oddflow today.pcap
  oddflow drift camera.oddflow week-*.pcap.gz --format json | jq .findings`,
    )
    .action(async (model: string, files: string[], options) =>
      (await import('../commands/drift.js')).drift(model, files, options),
    )
}
