/** `evaluate`. */
import { Argument, Command } from 'commander'
import { OPEN_FLOWS, withCaptureFlags, withFlowMemory, withFormat } from '../flags.js'

export function evaluateCommand(): Command {
  const command = new Command('evaluate')
    .description('measure a model on inputs that are labelled normal and novel')
    .addArgument(new Argument('<model>', 'a model file'))
    .requiredOption('--normal <input...>', 'inputs that are normal and were not trained on')
    .requiredOption('--novel <input...>', 'inputs that are novel')
    .option('--normal-filter <filter>', 'keep these packets of the normal captures')
    .option('--novel-filter <filter>', 'keep these packets of the novel captures')
    .option('--report <page>', 'write a report as one HTML page')
    .option('--roc <picture>', 'write the ROC curve as SVG')
  return withFlowMemory(withCaptureFlags(withFormat(command, ['text', 'json']), true), OPEN_FLOWS)
    .addHelpText(
      'after',
      `
Every flow of a novel input counts as novel, unless --novel-filter keeps only the novel packets. evaluate prints the
AUC, the true-positive rate at false-positive rates of 1 % and 5 %, and both rates at the model's threshold.

Examples:
  oddflow evaluate camera.oddflow --normal n1.pcap n2.pcap --novel scan.pcap --report report.html
  oddflow evaluate rows.oddflow --normal normal.npy --novel novel.npy --roc roc.svg --format json`,
    )
    .action(async (model: string, options) =>
      (await import('../commands/evaluate.js')).evaluate(model, options),
    )
}
