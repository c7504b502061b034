/**
 * One command line, from arguments to exit code: 0 done, 1 the input or the data is unusable, 2 the command line is wrong,
 * 128 + its number if a signal ended the reading. An error is one line on standard error; a stack trace means a bug.
 */
import { oneLineErrors, reportFailure, stoppedExitCode } from '@oddflow/program'
import { completionCommand } from '@oddflow/program/completion'
import { Command } from 'commander'
import { COMMANDS } from './command-line.js'
import { INPUT_HELP } from './flags.js'
import { VERSION } from './inputs.js'

export function createProgram(): Command {
  const program = new Command('oddflow')
    .description('Learn what a network device normally does from a capture, and flag what is new.')
    .version(VERSION, '--version', 'print the version and end')
    .helpOption('-h, --help', 'print this help and end')
    .exitOverride()
    .configureOutput(oneLineErrors('oddflow --help'))
    .addHelpText(
      'after',
      `
${INPUT_HELP}

Examples:
  oddflow demo
  oddflow train normal-1.pcap normal-2.pcap.gz -o camera.oddflow
  oddflow score camera.oddflow today.pcapng
  tcpdump -i eth0 -c 10000 -w - | oddflow score camera.oddflow - --format json
  oddflow evaluate camera.oddflow --normal n1.pcap n2.pcap --novel scan.pcap
  oddflow drift mixture.oddflow today.pcap
  oddflow update camera.oddflow after-upgrade.pcap -o camera-2.oddflow --assume-normal

Exit codes: 0 done, 1 the input or the data is unusable, 2 the command line is wrong, 130 and 143 stopped by Ctrl-C
or SIGTERM. If score or extract --flows reads a pipe, either signal ends the reading, and the results so far are kept.`,
    )
  for (const create of COMMANDS) program.addCommand(create())
  program.addCommand(completionCommand(program, VERSION))
  for (const command of program.commands) {
    command.exitOverride().configureOutput(oneLineErrors(`oddflow ${command.name()} --help`))
  }
  return program
}

/** Runs `argv` (as process.argv has it) and leaves the exit code in process.exitCode. */
export async function run(argv: readonly string[]): Promise<void> {
  try {
    await createProgram().parseAsync(argv)
  } catch (error) {
    process.exitCode = reportFailure('oddflow', error)
  }
  // what was stopped is done, and a pipe that is still open must not keep the process
  const stopped = stoppedExitCode()
  if (stopped !== null) process.exit(stopped)
}
