/** What several commands have alike. */
import { Argument, type Command, CommanderError, Help, Option } from 'commander'

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

/**
 * --help prints the options of these names, which most need, and says where the others are; --help all prints every one.
 */
export function withShortHelp(command: Command, essential: readonly string[]): Command {
  let isWhole = false
  const isShown = (option: Option): boolean => isWhole || [...essential, 'help'].includes(option.name())
  const allOptions = (of: Command): Option[] => new Help().visibleOptions(of)
  return command
    .helpOption(false)
    .option('-h, --help [all]', 'print this help and end; --help all: with every option')
    .on('option:help', (given: string | null) => {
      isWhole = given === 'all'
      command.outputHelp()
      throw new CommanderError(0, 'commander.helpDisplayed', '(outputHelp)')
    })
    .configureHelp({ visibleOptions: (of) => allOptions(of).filter(isShown) })
    .addHelpText('after', () => {
      const hidden = allOptions(command).filter((option) => !isShown(option))
      const groups = new Set(hidden.flatMap(({ helpGroupHeading }) => helpGroupHeading?.slice(0, -1) ?? []))
      return isWhole
        ? ''
        : `\n${hidden.length} more options with --help all: ${[...groups].join(', ').toLowerCase()}.`
    })
}
