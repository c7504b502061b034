/**
 * One command line, from arguments to exit code: 0 done, 1 an input, a model or an output is unusable, 2 the
 * command line or the configuration was wrong. An error is one line on standard error; a stack trace means a
 * fault of OddFlow's own, and says so.
 */
import { OddFlowError } from '@oddflow/core'
import { oneLineErrors, UsageError } from '@oddflow/program'
import { Command, CommanderError, Option } from 'commander'
import { standardErrorLog } from './log.js'
import { VERSION } from './version.js'

/** The command line: which commands there are, what they take, and what their help says. */

function createProgram(): Command {
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
  oddflow-agent run --interface eth0 --model home.oddflow --eve eve.json --state state
  oddflow-agent calibrate week-2.pcap --model home.oddflow -o home.calibration

Exit codes: 0 done, 1 an input, a model or an output is unusable, 2 the command line was wrong.`,
    )
  program.addCommand(runCommand())
  program.addCommand(calibrateCommand())
  program.addCommand(devicesCommand())
  program.addCommand(modelsCommand())
  program.addCommand(dashboardLinkCommand())
  program.addCommand(doctorCommand())
  for (const command of program.commands) {
    command.exitOverride().configureOutput(oneLineErrors(`oddflow-agent ${command.name()} --help`))
  }
  return program
}

/** What to watch, with what, and where alerts go. */
function withSettings(command: Command): Command {
  return command
    .option('-c, --config <file>', 'a configuration file (YAML); options given here count more')
    .option('--read <capture>', 'a capture file (pcap, pcapng; .gz, .zst), or - for standard input')
    .option('--interface <name>', 'a network interface, recorded by tcpdump, which alone needs the right to')
    .option('--filter <words>', "watch the packets that match, in tcpdump's words")
    .option(
      '--drop-duplicates',
      'leave out copies of a packet within 1 ms, as mirror ports and the interface any record them',
    )
    .option('--model <model>', 'a model that oddflow train wrote from captures')
    .addOption(
      new Option(
        '--models <owners>',
        'learn models here, from what passes: one of each device, of each group of a configuration, or of all',
      ).choices(['device', 'group', 'all']),
    )
    .option('--eve <file>', 'where alerts go: EVE JSON lines at the end of this file')
    .option('--no-fold', 'give out every alert by itself, alike or not')
    .option('--state <folder>', 'keep alerts on disk until they are delivered, so that a kill loses none')
    .option('--listen <host:port>', 'serve metrics for Prometheus at /metrics, such as 127.0.0.1:9477')
    .option(
      '--memory-limit <bytes>',
      'ceiling on resident memory, which sets the room for flows (default: 128M)',
    )
    .option('--allow-root', 'run as root, which is refused otherwise: the agent needs no right of root')
}

function runCommand(): Command {
  return withSettings(
    new Command('run').description('watch, until the input ends (--once) or a signal comes'),
  )
    .option('--once', 'end when the input ends, and print the counters as one line of JSON')
    .option('--check-config', 'say whether the configuration and the model would do, and end')
    .addHelpText(
      'after',
      `
Verdicts are those of "oddflow score", given as soon as no packet can change them. SIGTERM and SIGINT bring out
what is there and end; SIGHUP opens the alert file anew (after log rotation) and takes over the
configuration's rules of suppression; one that comes early counts once the agent is ready.

Examples:
  oddflow-agent run --read today.pcap --model home.oddflow --eve eve.json --once
  oddflow-agent run --read today.pcap --model home.oddflow --eve eve.json --once --no-fold | jq .captured
  oddflow-agent run --interface eth0 --filter "not port 22" --model home.oddflow --eve eve.json --state state
  oddflow-agent run -c agent.yaml --check-config`,
    )
    .action(async (options) => (await import('./commands/run.js')).run(options))
}

function calibrateCommand(): Command {
  return new Command('calibrate')
    .description("learn from captures of normal traffic what an alert budget's threshold has to be")
    .argument('<captures...>', 'captures of normal traffic that the model was not trained on')
    .requiredOption('--model <model>', 'the model that is to watch')
    .requiredOption(
      '-o, --output <file>',
      'the file that "budget: { calibration: FILE }" of a configuration names',
    )
    .option('--filter <words>', "use the packets that match, in tcpdump's words, as the agent will")
    .option('--drop-duplicates', 'leave out copies of a packet, as the agent will')
    .option(
      '--local-network <networks...>',
      'which end of a flow is the device, as localNetworks in a configuration',
    )
    .addOption(
      new Option('--false-alerts-per-day <number>', 'the budget to tell about')
        .default(1)
        .argParser(positiveNumber('--false-alerts-per-day')),
    )
    .addOption(new Option('--format <name>', 'output format').choices(['text', 'json']).default('text'))
    .addHelpText(
      'after',
      `
With enough flows a threshold is conformal: it keeps the budget whatever the distribution of scores. With up to ten
times too few it comes from a fit of their tail, where a test does not refuse it. Otherwise the budget is refused,
and the number of flows that it needs is named.

Examples:
  oddflow-agent calibrate week-2.pcap week-3.pcap --model home.oddflow -o home.calibration
  oddflow-agent calibrate week-2.pcap --model home.oddflow -o home.calibration --false-alerts-per-day 0.1`,
    )
    .action(async (captures, options) =>
      (await import('./commands/calibrate.js')).calibrate(captures, options),
    )
}

/** Which agent a command is about, whether it runs or not. */
function withState(command: Command): Command {
  return command
    .option('-c, --config <file>', "the agent's configuration file, which names its state folder")
    .option('--state <folder>', "the agent's state folder; counts more than that of the configuration")
}

function dashboardLinkCommand(): Command {
  return withState(
    new Command('dashboard-link').description(
      "print the address of a running agent's dashboard, with the token that signs in",
    ),
  ).action(async (options) => (await import('./commands/dashboard-link.js')).dashboardLink(options))
}

function devicesCommand(): Command {
  const devices = new Command('devices').description('list the devices and change how they are treated')
  devices
    .command('list')
    .description('print the devices that are known, the last seen first')
    .addOption(new Option('--format <name>', 'output format').choices(['text', 'json']).default('text'))
    .action(async (options) => (await import('./commands/devices.js')).listDevices(options))
  const actions = [
    ['approve', 'watch devices: their alerts are given from now on'],
    ['pause', 'give no alerts of devices until they are resumed'],
    ['resume', 'watch paused devices again'],
    ['relearn', 'learn devices anew: they are not watched until they are ready and approved again'],
    ['forget', 'take devices off the table; one that comes again is new'],
  ] as const
  for (const [action, description] of actions) {
    const command = devices.command(`${action} [devices...]`).description(description)
    if (action === 'approve') command.option('--ready', 'all devices that are ready')
    command.action(async (given, options) =>
      (await import('./commands/devices.js')).actOnDevices(action, given, options),
    )
  }
  for (const command of devices.commands) {
    withState(command)
    command.exitOverride().configureOutput(oneLineErrors(`oddflow-agent devices ${command.name()} --help`))
  }
  return devices.addHelpText(
    'after',
    `
With "devices:" in its configuration an agent learns each device before it watches it:
learning, ready (for approval), watching, paused.

Examples:
  oddflow-agent devices list -c /etc/oddflow/agent.yaml
  oddflow-agent devices approve --ready --state /var/lib/oddflow-agent
  oddflow-agent devices pause 02:00:5e:10:00:01 --state /var/lib/oddflow-agent
  oddflow-agent devices relearn 02:00:5e:10:00:01 --state /var/lib/oddflow-agent`,
  )
}

function modelsCommand(): Command {
  const models = new Command('models').description(
    'tell of the models that the agent makes, and take one back',
  )
  models
    .command('list')
    .description('print whose models there are, what was learnt, and what the last training found')
    .addOption(new Option('--format <name>', 'output format').choices(['text', 'json']).default('text'))
    .action(async (options) => (await import('./commands/models.js')).listModels(options))
  models
    .command('rollback <owners...>')
    .description('put the model before the one in force in its place; once more undoes it')
    .action(async (owners, options) => (await import('./commands/models.js')).rollbackModels(owners, options))
  for (const command of models.commands) {
    withState(command)
    command.exitOverride().configureOutput(oneLineErrors(`oddflow-agent models ${command.name()} --help`))
  }
  return models.addHelpText(
    'after',
    `
With "models:" in its configuration (or --models) an agent makes its models itself, of each device, group, or all.

Examples:
  oddflow-agent models list --state /var/lib/oddflow-agent
  oddflow-agent models rollback 02:00:5e:10:00:01 --state /var/lib/oddflow-agent`,
  )
}

function positiveNumber(flag: string): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (text.trim() !== '' && value > 0 && value < Number.POSITIVE_INFINITY) return value
    throw new UsageError(`${flag} ${text}: expected a number above 0`)
  }
}

function doctorCommand(): Command {
  return withSettings(new Command('doctor').description('check this machine and say what is missing'))
    .addOption(new Option('--format <name>', 'output format').choices(['text', 'json']).default('text'))
    .addHelpText(
      'after',
      `
Exit code 1 where something is missing.

Examples:
  oddflow-agent doctor -c /etc/oddflow/agent.yaml
  oddflow-agent doctor --interface eth0 --model home.oddflow --eve eve.json`,
    )
    .action(async (options) => (await import('./commands/doctor.js')).doctor(options))
}

/** Runs `argv` (as process.argv has it) and leaves the exit code in process.exitCode. */
export async function run(argv: readonly string[]): Promise<void> {
  try {
    await createProgram().parseAsync(argv)
  } catch (error) {
    process.exitCode = report(error)
  }
}

function report(error: unknown): number {
  // commander has printed its own message by now; its code 0 is --help and --version
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
  if (error instanceof UsageError) {
    standardErrorLog.error(error.message)
    return 2
  }
  if (error instanceof OddFlowError) {
    standardErrorLog.error(error.message)
    return 1
  }
  const { code = '' } = (error ?? {}) as { code?: unknown }
  if (code === 'EMFILE' || code === 'ENFILE') {
    standardErrorLog.error('too many open files; raise the limit (ulimit -n, or LimitNOFILE= of a unit)')
    return 1
  }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
  process.stderr.write(
    `oddflow-agent: a fault in OddFlow itself; please report it with the command and this text:\n${text}\n`,
  )
  return 1
}
