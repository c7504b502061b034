/** `drift`. */
import { Argument, Command } from 'commander'
import { OPEN_FLOWS, withCaptureFlags, withFlowMemory } from '../capture-flags.js'
import { INPUT_HELP, inputs, withFormat } from './shared-options.js'

export function driftCommand(): Command {
  const command = new Command('drift')
    .description('say whether and how a model has aged')
    .addArgument(new Argument('<model>', 'a model file'))
    .addArgument(inputs())
  return withFlowMemory(withCaptureFlags(withFormat(command, ['text', 'json']), true), OPEN_FLOWS)
    .addHelpText(
      'after',
      `
${INPUT_HELP} No labels are needed: the scores are compared with those of the training rows, the verdicts
with what the calibration promised, and the mixture's components with what they were given.

Examples:
  oddflow drift camera.oddflow today.pcap
  oddflow drift camera.oddflow week-*.pcap.gz --format json | jq .findings`,
    )
    .action(async (model: string, files: string[], options) =>
      (await import('../commands/drift.js')).drift(model, files, options),
    )
}
