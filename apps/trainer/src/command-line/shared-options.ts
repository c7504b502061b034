/** What several commands have alike. */
import { Argument, type Command, Option } from 'commander'

export const INPUT_HELP =
  'INPUT is a capture (pcap or pcapng, plain or .gz, or - for standard input) or feature rows (.npy, .csv).'

export function inputs(): Argument {
  return new Argument('<input...>', 'captures or feature rows; - is a capture on standard input')
}

export function withFormat(command: Command, formats: string[]): Command {
  return command.addOption(
    new Option('--format <name>', 'output format').choices(formats).default(formats[0]),
  )
}
