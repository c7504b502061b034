/**
 * One command line, from arguments to exit code: 0 done, 1 an input, a model or an output is unusable, 2 the
 * command line or the configuration was wrong. An error is one line on standard error; a stack trace means a
 * fault of OddFlow's own, and says so.
 */
import { TOO_MANY_FILES } from '@oddflow/core'
import { oneLineErrors, reportFailure, UsageError } from '@oddflow/program'
import { completionCommand } from '@oddflow/program/completion'
import { Argument, Command, Option } from 'commander'
import { standardErrorLog } from './log.js'
import { VERSION } from './version.js'

function createProgram(): Command {
  const program = new Command('oddflow-agent')
    .description('Watch a network with a model of its normal behavior and report new behavior.')
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
  program.addCommand(setupCommand())
  program.addCommand(runCommand())
  program.addCommand(calibrateCommand())
  program.addCommand(devicesCommand())
  program.addCommand(modelsCommand())
  program.addCommand(incidentsCommand())
  program.addCommand(dashboardLinkCommand())
  program.addCommand(doctorCommand())
  program.addCommand(completionCommand(program, VERSION))
  return withErrors(program, 'oddflow-agent')
}

/** Errors of the commands are one line, with the help of the command that it is about. */
function withErrors(parent: Command, name: string): Command {
  for (const command of parent.commands)
    command.exitOverride().configureOutput(oneLineErrors(`${name} ${command.name()} --help`))
  return parent
}

/** What to watch, with what, and where alerts go. */
function withSettings(command: Command): Command {
  return command
    .option('-c, --config <file>', 'a configuration file (YAML); options given here override it')
    .option('--read <capture>', 'a capture file (pcap, pcapng; .gz, .zst), or - for standard input')
    .option('--interface <name>', 'a network interface; tcpdump records it and needs the privilege to do so')
    .option('--filter <words>', "watch only packets that match, in tcpdump's syntax")
    .option(
      '--drop-duplicates',
      'ignore copies of a packet within 1 ms, as recorded by mirror ports and the interface "any"',
    )
    .option('--model <model>', 'a model that oddflow train wrote from captures')
    .addOption(
      new Option(
        '--models <owners>',
        'make models on this machine: one for each device, one for each group in the configuration, or one for all',
      ).choices(['device', 'group', 'all']),
    )
    .option('--eve <file>', 'the alert file; EVE JSON lines are appended')
    .option('--no-fold', 'write every alert; do not combine similar alerts within a minute')
    .option(
      '--state <folder>',
      'keep alerts on disk until they are delivered, so that none are lost if the agent is killed',
    )
    .option(
      '--listen <host:port>',
      'serve metrics for Prometheus at this address (path /metrics), such as 127.0.0.1:9477',
    )
    .option(
      '--memory-limit <bytes>',
      'limit on resident memory, which also limits the number of open flows (default: 128M, and more for each feature in use: MQTT 24M, mail 16M, NATS 15M, models made here 12M, peerNames 4M, models that learn online 5M)',
    )
    .option(
      '--allow-root',
      'allow the agent to run as root; without this option it refuses, because it needs no root privileges',
    )
}

/** Where setup can have incidents reported: in its help and in its question. */
const PLACES = `  none                             only in the dashboard and the alert file
  ntfy                             push messages through ntfy.sh, to a new topic that is hard to guess
  https://SERVER/TOPIC             an ntfy topic of yours
  https://hooks.slack.com/…        a webhook of Slack, Discord or Teams
  webhook:https://SERVER/PATH      a web server of yours, which gets a JSON array of events by POST
  smtps://USER@SERVER?to=ADDRESS   mail (optional: &from=ADDRESS)
  mqtt://USER@SERVER               an MQTT broker, such as the one of Home Assistant`

function setupCommand(): Command {
  return new Command('setup')
    .description('ask three questions, write the configuration, and install the service')
    .option('-c, --config <file>', 'the configuration to write', '/etc/oddflow/agent.yaml')
    .option('--interface <name>', "the interface that carries the devices' traffic")
    .option('--tell <where>', 'where to report incidents: none, ntfy, or a URL (see below)')
    .option('--password-file <file>', 'a file with the password of the user in the URL')
    .addOption(
      new Option(
        '--approve <who>',
        'who approves a device that is learned: the agent (auto) or a person (manual)',
      ).choices(['auto', 'manual']),
    )
    .option('--service', 'install and start the service')
    .option('--no-service', 'do not install or start the service')
    .option('--replace', 'replace an existing configuration, and keep it as FILE.old')
    .option('-y, --yes', 'ask nothing: use the default for each option that is not given')
    .option(
      '--root <folder>',
      'write all files below this folder, for example into a mounted system image, and start nothing',
      '/',
    )
    .addHelpText(
      'after',
      `
Where to report incidents (the default is none):
${PLACES}

Examples:
  sudo oddflow-agent setup
  sudo oddflow-agent setup --yes --interface br-lan --tell ntfy --service
  oddflow-agent setup -c home/agent.yaml --yes --interface eth0 --approve manual`,
    )
    .action(async (options) => (await import('./commands/setup.js')).setup({ ...options, places: PLACES }))
}

function runCommand(): Command {
  return withSettings(new Command('run').description('watch until the input ends (--once) or a signal comes'))
    .option('--once', 'end when the input ends, and print the counters as one line of JSON')
    .option('--check-config', 'check the configuration and the model, and end')
    .addHelpText(
      'after',
      `
Verdicts are those of "oddflow score" and come as soon as no later packet can change them.
On SIGTERM or SIGINT the agent judges open flows, delivers pending alerts and ends. On SIGHUP it reopens the alert
file (for log rotation), and rereads the suppression rules and the models that changed on disk.

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
    .description('compute the threshold for an alert budget from captures of normal traffic')
    .argument('<captures...>', 'captures of normal traffic that the model was not trained on')
    .requiredOption('--model <model>', 'the model whose threshold to compute')
    .requiredOption(
      '-o, --output <file>',
      'the file to write, for "budget: { calibration: FILE }" of a configuration',
    )
    .option(
      '--filter <words>',
      "use only packets that match, in tcpdump's syntax; it must be the agent's filter",
    )
    .option('--drop-duplicates', 'ignore copies of a packet; needed if the agent ignores them')
    .option('--local-network <networks...>', "the devices' networks, like localNetworks in a configuration")
    .addOption(
      new Option(
        '--false-alerts-per-day <number>',
        'print the threshold of this budget (the file that is written serves every budget)',
      )
        .default(1)
        .argParser(positiveNumber('--false-alerts-per-day')),
    )
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
With enough flows the threshold is conformal: it keeps the budget for any distribution of scores. With fewer
flows it can come from a fit to the tail of the scores, if a test accepts the fit. Otherwise the budget is refused, and
the error says how many flows it needs.

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
    .option(
      '-c, --config <file>',
      "the agent's configuration file, which names its state folder (default: /etc/oddflow/agent.yaml, where it exists)",
    )
    .option('--state <folder>', "the agent's state folder; overrides the one in the configuration")
}

function withStates(parent: Command): Command {
  for (const command of parent.commands) withState(command)
  return withErrors(parent, `oddflow-agent ${parent.name()}`)
}

function formatOption(): Option {
  return new Option('--format <name>', 'output format').choices(['text', 'json']).default('text')
}

function dashboardLinkCommand(): Command {
  return withState(
    new Command('dashboard-link').description(
      "print a link to a running agent's dashboard; the link signs in once, within 5 minutes",
    ),
  ).action(async (options) => (await import('./commands/setup.js')).dashboardLink(options))
}

/** What names a device. */
const DEVICE =
  'a device as the column "device" of "devices list" shows it: its MAC address, or its IP address if it has none'

function devicesCommand(): Command {
  const devices = new Command('devices').description('list the devices and change how they are treated')
  devices
    .command('list')
    .description('print the known devices, most recently seen first')
    .addOption(formatOption())
    .option('--group <name>', 'only the devices of this group')
    .action(async (options) => (await import('./commands/devices.js')).listDevices(options))
  const actions = [
    ['approve', 'watch devices: report their alerts from now on'],
    ['pause', 'stop reporting the alerts of devices until they are resumed'],
    ['resume', 'watch paused devices again'],
    ['relearn', 'learn devices again; they are watched when they are ready and approved'],
    ['forget', 'remove devices from the table; a device that returns counts as new'],
  ] as const
  for (const [action, description] of actions) {
    const command = devices.command(action).description(description).argument('[devices...]', DEVICE)
    if (action === 'approve') command.option('--ready', 'all devices that are ready')
    command.action(async (given, options) =>
      (await import('./commands/devices.js')).actOnDevices(action, given, options),
    )
  }
  for (const [action, description] of [
    ['name', 'give a device a name, which then stands in all messages and lists; "" removes the name'],
    ['group', 'put a device in a group, such as cameras; "" removes it from its group'],
  ] as const) {
    devices
      .command(action)
      .description(description)
      .argument('<device>', DEVICE)
      .argument(`<${action}>`)
      .action(async (device, given, options) =>
        (await import('./commands/devices.js')).actOnDevices(action, [device], options, given),
      )
  }
  return withStates(devices).addHelpText(
    'after',
    `
With "devices:" in its configuration the agent learns each device before it watches it.
States: learning, ready (learned, and waiting for approval), watching, paused.

Examples:
  oddflow-agent devices list -c /etc/oddflow/agent.yaml
  oddflow-agent devices approve --ready --state /var/lib/oddflow-agent
  oddflow-agent devices pause 02:00:5e:10:00:01 --state /var/lib/oddflow-agent
  oddflow-agent devices relearn 02:00:5e:10:00:01 --state /var/lib/oddflow-agent
  oddflow-agent devices name 02:00:5e:10:00:01 "Camera in the hall" --state /var/lib/oddflow-agent
  oddflow-agent devices list --group cameras --state /var/lib/oddflow-agent`,
  )
}

function modelsCommand(): Command {
  const models = new Command('models').description(
    'list the models that the agent made and go back to an earlier one',
  )
  models
    .command('list')
    .description('print the active models, the rows collected, and the result of the last training')
    .addOption(formatOption())
    .action(async (options) => (await import('./commands/models.js')).listModels(options))
  models
    .command('rollback')
    .description('restore the previous model; a second rollback undoes the first')
    .argument('<owners...>', 'the column "owner" of "models list": MAC addresses, groups, or all')
    .action(async (owners, options) => (await import('./commands/models.js')).rollbackModels(owners, options))
  return withStates(models).addHelpText(
    'after',
    `
With "models:" in its configuration (or --models) the agent makes its own models: one for each device, for each group,
or for all.

Examples:
  oddflow-agent models list --state /var/lib/oddflow-agent
  oddflow-agent models rollback 02:00:5e:10:00:01 --state /var/lib/oddflow-agent`,
  )
}

function incidentsCommand(): Command {
  const incidents = new Command('incidents').description('list incidents, print one, or answer one')
  incidents
    .command('list')
    .description('print the open incidents and the last 200 that are over')
    .action(async (options) => (await import('./commands/incidents.js')).listIncidents(options))
  incidents
    .command('show <id>')
    .description(
      'print the facts of one incident, and the addresses that its device talked to; the first digits of its id are enough',
    )
    .action(async (id, options) => (await import('./commands/incidents.js')).showIncident(id, options))
  incidents
    .command('answer')
    .argument('<id>')
    .addArgument(new Argument('<answer>').choices(['snooze', 'not-this-kind', 'attack', 'normal', 'none']))
    .description(
      'tell the running agent how to treat an incident: snooze (report nothing for --hours), not-this-kind (never report this kind for this device), attack (never learn this traffic), normal (learn this traffic), or none (remove the answer)',
    )
    .option('--hours <n>', 'duration of a snooze, up to 720 (default: 24)', positiveNumber('--hours'))
    .action(async (id, answer, options) =>
      (await import('./commands/incidents.js')).answerIncident(id, answer, options),
    )
  for (const command of incidents.commands) {
    command.addOption(formatOption())
  }
  return withStates(incidents).addHelpText(
    'after',
    `
Examples:
  oddflow-agent incidents list --state /var/lib/oddflow-agent
  oddflow-agent incidents answer 5f3a snooze --hours 8 --state /var/lib/oddflow-agent
  oddflow-agent incidents answer 5f3a normal --state /var/lib/oddflow-agent`,
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
  return withSettings(new Command('doctor').description('check this machine and report problems'))
    .option('--try', 'send a test incident through each output and print the answers')
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
All options except --try and --format describe the run to check; doctor itself watches nothing. Its default
configuration is /etc/oddflow/agent.yaml, if that exists.
The exit code is 1 if something is missing, or with --try if an output did not accept the test incident. --try writes
nothing to the EVE file.

Examples:
  oddflow-agent doctor -c /etc/oddflow/agent.yaml
  oddflow-agent doctor -c /etc/oddflow/agent.yaml --try
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
  const { code } = (error ?? {}) as { code?: unknown }
  if (code === 'EMFILE' || code === 'ENFILE') {
    standardErrorLog.error(TOO_MANY_FILES)
    return 1
  }
  return reportFailure('oddflow-agent', error, standardErrorLog.error)
}
