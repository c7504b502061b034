/**
 * The command line: which commands there are, what they take, and what their help says.
 *
 * Each command is a file of its own in commands/, loaded when it is called, so that `oddflow --version` does
 * not wait for the charting library.
 */

import { oneLineErrors } from '@oddflow/program'
import { Argument, Command, Option } from 'commander'
import { OPEN_FLOWS, withCaptureFlags, withFlowMemory } from './capture-flags.js'
import { withDetectorFlags } from './detector-flags.js'
import { withFlowFlags } from './flow-flags.js'
import { number, whole } from './option-values.js'
import { RECIPES } from './recipes.js'
import { withSelectionFlags } from './selection/selection-flags.js'
import { VERSION } from './version.js'

const INPUT_HELP =
  'INPUT is a capture (pcap or pcapng, plain or .gz, or - for standard input) or feature rows (.npy, .csv).'

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
  oddflow drift camera.oddflow today.pcap
  oddflow update camera.oddflow today.pcap -o camera.oddflow

Exit codes: 0 done, 1 the input or the data would not do, 2 the command line was wrong, 130 and 143 stopped by
Ctrl-C or SIGTERM. Both only end the reading where score or extract --flows reads a pipe: what was read is used.`,
    )
  program.addCommand(trainCommand())
  program.addCommand(scoreCommand())
  program.addCommand(evaluateCommand())
  program.addCommand(updateCommand())
  program.addCommand(driftCommand())
  program.addCommand(replayCommand())
  program.addCommand(inspectCommand())
  program.addCommand(infoCommand())
  program.addCommand(extractCommand())
  program.addCommand(demoCommand())
  for (const command of program.commands) {
    command.exitOverride().configureOutput(oneLineErrors(`oddflow ${command.name()} --help`))
  }
  return program
}

function trainCommand(): Command {
  const command = new Command('train')
    .description('learn normal behaviour and write a model file')
    .addArgument(inputs())
    .requiredOption('-o, --output <model>', 'the model file to write; - for standard output')
    .addOption(
      new Option(
        '--recipe <name>',
        'preset that single options override; authors makes flows of one direction, of IPv4 alone',
      )
        .choices(Object.keys(RECIPES))
        .default('default'),
    )
    .option('--fpr <rate>', 'false-positive tolerance that sets the threshold', number, 0.01)
    .option(
      '--calibration-share <share>',
      'share of rows kept from the fit to set the threshold; of five inputs and more, whole ones are kept, up to twice the share',
      number,
      0.2,
    )
    .option('--seed <number>', 'seed of all randomness: same seed, same model', whole, 1)
  withFlowFlags(withCaptureFlags(withFormat(command, ['text', 'json'])), 'split')
  withFlowMemory(
    command,
    'memory for the packets of all flows; where it does not do, training stops (default: 1G)',
  )
  return withSelectionFlags(withDetectorFlags(command))
    .addHelpText(
      'after',
      `
${INPUT_HELP} Several captures are independent: flows never cross files.

Examples:
  oddflow train normal.pcap -o camera.oddflow
  oddflow train day-*.pcap.gz -o camera.oddflow --filter "host 192.168.1.20" --fpr 0.001
  oddflow train rows.npy -o rows.oddflow --detector oc-nystrom-qs --scaler standard
  oddflow train normal.pcap -o paper.oddflow --recipe paper
  oddflow train normal.pcap -o best.oddflow --select-normal other-day.pcap --select-novel attacks.pcap
  oddflow train ring-*.pcap -o camera.oddflow --continuous --features stats-header
  oddflow train gtp.pcap -o inner.oddflow --decap inner --join-fragments`,
    )
    .action(async (files: string[], options) => (await import('./commands/train.js')).train(files, options))
}

function scoreCommand(): Command {
  const command = new Command('score')
    .description('give a verdict on each flow or row')
    .addArgument(new Argument('<model>', 'a model file'))
    .addArgument(inputs())
    .option('--novel-only', 'print only what is new')
  return withFlowMemory(withCaptureFlags(withFormat(command, ['table', 'json', 'csv']), true), OPEN_FLOWS)
    .addHelpText(
      'after',
      `
${INPUT_HELP} JSON is one object a line. A flow of one packet has no score: it is new unless one-packet
flows to the same service were seen in training.

Examples:
  oddflow score camera.oddflow today.pcap --novel-only
  oddflow score camera.oddflow today.pcap --format json | jq 'select(.novel)'
  oddflow score camera.oddflow ring-*.pcap --continuous
  oddflow score rows.oddflow rows.csv --format csv`,
    )
    .action(async (model: string, files: string[], options) =>
      (await import('./commands/score.js')).score(model, files, options),
    )
}

function evaluateCommand(): Command {
  const command = new Command('evaluate')
    .description('measure a model on inputs that are known to be normal and novel')
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
Everything in a novel input counts as novel unless --novel-filter picks out the packets that are.
Prints the AUC, the true-positive rate at false-positive rates of 1 % and 5 %, and both rates at the model's
own threshold.

Examples:
  oddflow evaluate camera.oddflow --normal n1.pcap n2.pcap --novel scan.pcap --report report.html
  oddflow evaluate rows.oddflow --normal normal.npy --novel novel.npy --roc roc.svg --format json`,
    )
    .action(async (model: string, options) =>
      (await import('./commands/evaluate.js')).evaluate(model, options),
    )
}

function updateCommand(): Command {
  const command = new Command('update')
    .description('let a model learn on from more traffic')
    .addArgument(new Argument('<model>', 'a model file'))
    .addArgument(inputs())
    .requiredOption('-o, --output <model>', 'the model file to write; may be the one that is read')
    .option('--assume-normal', 'every row is normal, also where the model finds it new')
    .addOption(
      new Option(
        '--method <number>',
        '1: EM to convergence each round, 2: after each batch too (default: 1)',
      ).choices(['1', '2']),
    )
    .option('--round-rows <count>', 'rows after which the model is settled and guarded (default: 100)', whole)
    .option('--reservoir-rows <count>', 'rows kept for convergence (default: 1000)', whole)
    .option('--half-life <rows>', 'a row counts half after so many more (default: none is forgotten)', number)
    .option('--window <rows>', 'only the last so many rows count', whole)
    .addOption(
      new Option('--novel <policy>', 'what becomes of novel rows (default: hold)').choices([
        'disregard',
        'hold',
        'learn',
      ]),
    )
    .option(
      '--confirm <inputs>',
      'held rows are learnt once their like came in so many inputs, and every second one (default: never)',
      whole,
    )
    .option('--confirm-rows <count>', 'and were so many (default: 10)', whole)
    .option('--maximum-components <count>', 'Gaussians that there may be (default: 20)', whole)
    .addOption(
      new Option('--sketch <policy>', 'landmarks when something new is learnt (default: grow)').choices([
        'keep',
        'grow',
        'replace',
      ]),
    )
    .option('--sketch-rows <count>', 'landmarks that come at a time (default: 10)', whole)
    .option('--re-estimate-bandwidth', 'with new landmarks, if the quantile moved by over a tenth')
    .option('--no-guard', 'learn whatever comes')
    .option('--guard-lifted <share>', 'known-novel rows that may come to pass (default: 0.02)', number)
    .option('--guard-moved <share>', 'known-normal rows that may come to be novel (default: 0.1)', number)
    .option('--shadow-agrees', 'learn only what the model as it was trained finds normal too')
    .option('--known-novel <rows>', 'feature rows that must stay novel, beside made ones')
    .option('--journal <file>', 'write every step, for oddflow replay')
    .option('--seed <number>', 'seed of all randomness, for a first update (default: 1)', whole)
  return withFlowMemory(withCaptureFlags(withFormat(command, ['text', 'json']), true), OPEN_FLOWS)
    .addHelpText(
      'after',
      `
${INPUT_HELP}

Rows that the model finds normal are learnt. Novel ones are held: they are learnt when their like comes back in
other inputs (--confirm), or when you say that all is normal (--assume-normal). An update that would have rows
pass that must stay novel is undone. What learning needs is kept in the model, so updates can follow each other.

Examples:
  oddflow update camera.oddflow today.pcap -o camera.oddflow
  oddflow update camera.oddflow after-upgrade.pcap -o camera-2.oddflow --assume-normal
  oddflow update camera.oddflow day-*.pcap -o camera.oddflow --confirm 3 --half-life 20000 --journal may.jsonl`,
    )
    .action(async (model: string, files: string[], options) =>
      (await import('./commands/update.js')).update(model, files, givenGuard(options)),
    )
}

/** commander says true where --no-guard is not given; that says nothing. */
function givenGuard<T extends { guard?: boolean }>(options: T): T {
  return options.guard === false ? options : { ...options, guard: undefined }
}

function driftCommand(): Command {
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
      (await import('./commands/drift.js')).drift(model, files, options),
    )
}

function replayCommand(): Command {
  const command = new Command('replay')
    .description("repeat a journal's steps on the model that they began with, to check or to undo")
    .addArgument(new Argument('<model>', 'the model that oddflow update --journal began with'))
    .addArgument(new Argument('<journal>', 'the journal'))
    .requiredOption('-o, --output <model>', 'the model file to write')
    .option('--steps <count>', 'only the first so many (default: all)', whole)
  return withFormat(command, ['text', 'json'])
    .addHelpText(
      'after',
      `
Examples:
  oddflow replay camera.oddflow may.jsonl -o again.oddflow
  oddflow replay camera.oddflow may.jsonl -o undone.oddflow --steps 12`,
    )
    .action(async (model: string, journal: string, options) =>
      (await import('./commands/replay.js')).replay(model, journal, options),
    )
}

function inspectCommand(): Command {
  return withFormat(new Command('inspect').description('say what a model file holds'), ['text', 'json'])
    .addArgument(new Argument('<model>', 'a model file'))
    .addHelpText('after', '\nExample:\n  oddflow inspect camera.oddflow')
    .action(async (model: string, options) => (await import('./commands/inspect.js')).inspect(model, options))
}

function infoCommand(): Command {
  const command = new Command('info')
    .description('say what a capture holds')
    .addArgument(new Argument('<capture...>', 'captures; - is standard input'))
  return withCaptureFlags(withFormat(command, ['text', 'json']))
    .addHelpText(
      'after',
      `
With --filter, only the packets that it keeps are counted.

Examples:
  oddflow info today.pcap
  oddflow info *.pcapng --format json
  oddflow info gtp.pcap --decap inner --filter "net 10.0.0.0/8"
  oddflow info ring-*.pcap --continuous`,
    )
    .action(async (files: string[], options) => (await import('./commands/info.js')).info(files, options))
}

function extractCommand(): Command {
  const command = new Command('extract')
    .description('turn captures into feature rows, or into flow records')
    .addArgument(new Argument('<capture...>', 'captures; - is standard input'))
    .requiredOption(
      '-o, --output <file>',
      'rows: .npy, .csv, or - for .csv on standard output; flow records: .jsonl, .csv, .parquet, .npy, or - for .jsonl there',
    )
    .option('--flows', "write flow records, under the names of Zeek's conn.log, of all transports")
    .option('--model <model>', "use a model's feature contract instead of learning one from these captures")
    .addOption(
      new Option(
        '--recipe <name>',
        'preset that single options override (default: that of train, but truncating as the paper does); authors makes flows of one direction, of IPv4 alone',
      ).choices(Object.keys(RECIPES)),
    )
  withFlowMemory(
    command,
    'memory for flows: with --flows open ones, beyond it the least active are ended early (default: 32M); else the packets of all (default: 1G)',
  )
  return withFlowFlags(withCaptureFlags(command), 'truncate')
    .addHelpText(
      'after',
      `
Without --model, the duration that flows are cut at and the packets of a row are learned from these captures, and
a flow is truncated: one row of its beginning, the paper's with --iat-unit us. train splits long flows into rows;
--recipe default makes the same rows here, and --model those of the model, learning nothing.

Examples:
  oddflow extract normal.pcap -o rows.npy
  oddflow extract today.pcap -o rows.csv --model camera.oddflow
  oddflow extract normal.pcap -o rows.csv --features stats-header --iat-unit us
  oddflow extract normal.pcap -o trained-on.npy --recipe default
  oddflow extract normal.pcap -o authors.npy --recipe authors
  oddflow extract --flows today.pcap -o flows.parquet
  oddflow extract --flows today.pcap -o - | jq -r .community_id`,
    )
    .action(async (files: string[], options) =>
      (await import('./commands/extract.js')).extract(files, options),
    )
}

function demoCommand(): Command {
  return new Command('demo')
    .description('train and score on captures that come with OddFlow, and write a report')
    .option('-o, --output <page>', 'where the report goes', 'oddflow-report.html')
    .option('--seed <number>', 'seed of all randomness', whole, 1)
    .addHelpText('after', '\nExample:\n  oddflow demo -o /tmp/report.html')
    .action(async (options) => (await import('./commands/demo.js')).demo(options))
}

function inputs(): Argument {
  return new Argument('<input...>', 'captures or feature rows; - is a capture on standard input')
}

function withFormat(command: Command, formats: string[]): Command {
  return command.addOption(
    new Option('--format <name>', 'output format').choices(formats).default(formats[0]),
  )
}
