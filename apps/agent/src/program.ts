/** The command line: which commands there are, what they take, and what their help says. */
import { oneLineErrors } from '@oddflow/program'
import { Command } from 'commander'
import { VERSION } from './version.js'

export function createProgram(): Command {
  const program = new Command('oddflow-agent')
    .description('Watch a network with a model of its normal behaviour, and tell of what is new.')
    .version(VERSION, '--version', 'print the version and end')
    .helpOption('-h, --help', 'print this help and end')
    .exitOverride()
    .configureOutput(oneLineErrors('oddflow-agent --help'))
    .addHelpText(
      'after',
      `
Examples:
  oddflow-agent run --read today.pcap --model home.oddflow --eve eve.json --once
  tcpdump -i eth0 -U -w - | oddflow-agent run --read - --model home.oddflow --eve eve.json --state state

Exit codes: 0 done, 1 an input, a model or an output would not do, 2 the command line was wrong.`,
    )
  program.addCommand(runCommand())
  for (const command of program.commands) {
    command.exitOverride().configureOutput(oneLineErrors(`oddflow-agent ${command.name()} --help`))
  }
  return program
}

function runCommand(): Command {
  return new Command('run')
    .description('watch, until the input ends (--once) or a signal comes')
    .option('--read <capture>', 'a capture file (pcap, pcapng; .gz, .zst), or - for standard input')
    .option('--filter <words>', "watch the packets that match, in tcpdump's words")
    .option('--model <model>', 'a model that oddflow train wrote from captures')
    .option('--eve <file>', 'where alerts go: EVE JSON lines at the end of this file')
    .option('--no-fold', 'give out every alert by itself, alike or not')
    .option('--once', 'end when the input ends, and print the counters as one line of JSON')
    .option('--state <folder>', 'keep alerts on disk until they are delivered, so that a kill loses none')
    .option(
      '--memory-limit <bytes>',
      'ceiling on resident memory, which sets the room for flows (default: 128M)',
    )
    .addHelpText(
      'after',
      `
Verdicts are those of "oddflow score", given as soon as no packet can change them. SIGTERM and SIGINT bring out
what is there and end; SIGHUP opens the alert file anew (after log rotation).

Examples:
  oddflow-agent run --read today.pcap --model home.oddflow --eve eve.json --once
  oddflow-agent run --read today.pcap --model home.oddflow --eve eve.json --once --no-fold | jq .captured`,
    )
    .action(async (options) => (await import('./commands/run.js')).run(options))
}
