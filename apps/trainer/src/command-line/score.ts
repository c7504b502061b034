/** `score`. */
import { Argument, Command, Option } from 'commander'
import { INPUT_HELP, inputs, OPEN_FLOWS, withCaptureFlags, withFlowMemory, withFormat } from '../flags.js'

export function scoreCommand(): Command {
  const command = new Command('score')
    .description('give a verdict on each flow or row')
    .addArgument(new Argument('<model>', 'a model file'))
    .addArgument(inputs())
    .option('--novel-only', 'print only novel flows or rows')
    .option('--explain', 'say why each novel flow or row is novel: at most three reasons')
    .addOption(
      new Option('--group <kind>', 'give one verdict for each capture, or each device of a capture').choices([
        'capture',
        'device',
      ]),
    )
  return withFlowMemory(withCaptureFlags(withFormat(command, ['table', 'json', 'csv']), true), OPEN_FLOWS)
    .addHelpText(
      'after',
      `
${INPUT_HELP} With --format json, each line is one object.

A lower score of a flow is more unusual. With --group, a higher score of a capture or device is more unusual. Feature
sets that describe single packets (iat-size and others) give no score to a flow of one packet: it is novel unless
training saw one-packet flows to the same service.

Examples:
  oddflow score camera.oddflow today.pcap --novel-only --explain
  oddflow score camera.oddflow today.pcap --format json | jq 'select(.novel)'
  oddflow score camera.oddflow ring-*.pcap --continuous
  oddflow score camera.oddflow day-*.pcap --group capture
  oddflow score rows.oddflow rows.csv --format csv`,
    )
    .action(async (model: string, files: string[], options) =>
      (await import('../commands/score.js')).score(model, files, options),
    )
}
