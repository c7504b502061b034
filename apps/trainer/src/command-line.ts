/**
 * The commands: options and help. Their work is in commands/, loaded when a command is called, so that `oddflow --version`
 * does not wait for the charting library.
 */
import { Argument, Command, Option } from 'commander'
import {
  INPUT_HELP,
  inputs,
  number,
  OPEN_FLOWS,
  RECIPES,
  whole,
  withCaptureFlags,
  withDetectorFlags,
  withFlowFlags,
  withFlowMemory,
  withFormat,
  withSelectionFlags,
  withShortHelp,
} from './flags.js'

/** Options of `train` that its short help shows. */
const ESSENTIAL = 'output recipe fpr seed format filter continuous features protocols detector'.split(' ')

function trainCommand(): Command {
  const command = new Command('train')
    .description('learn normal behavior and write a model file')
    .addArgument(inputs())
    .requiredOption('-o, --output <model>', 'the model file to write; - for standard output')
    .addOption(
      new Option(
        '--recipe <name>',
        'preset of options: default, paper (as in its text) or authors (as in their code: IPv4 flows of one direction); any other option you give overrides it',
      )
        .choices(Object.keys(RECIPES))
        .default('default'),
    )
    .option('--fpr <rate>', 'share of normal flows that may be flagged; sets the threshold', number, 0.01)
    .option(
      '--calibration-share <share>',
      'share of the training rows that are left out of the fit and used for the threshold; with five or more inputs, whole inputs are left out (default: 0.2; an ensemble has no such share: it leaves out each input in turn)',
      number,
    )
    .option('--seed <number>', 'seed of all randomness: same seed, same model', whole, 1)
  withFlowFlags(withCaptureFlags(withFormat(command, ['text', 'json'])), 'split')
  withFlowMemory(
    command,
    'memory for open flows (flow-summary; default: 512M), or for the packets of all flows (other feature sets; default: 1G); if it is full, train ends with an error',
  )
  return withShortHelp(withSelectionFlags(withDetectorFlags(command)), ESSENTIAL)
    .addHelpText(
      'after',
      `
${INPUT_HELP} Several captures are independent: no flow crosses files. Train on two or more.
If a .csv begins with the header line that extract writes, train treats its service column as categories: a number there stands for a service.

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
sets with a value for each packet (iat-size and others) cannot score a flow that has only one packet: such a flow is novel
unless training saw one-packet flows to the same service.

Examples:
  oddflow score camera.oddflow today.pcap --novel-only --explain
  oddflow score camera.oddflow today.pcap --format json | jq 'select(.novel)'
  oddflow score camera.oddflow ring-*.pcap --continuous
  oddflow score camera.oddflow day-*.pcap --group capture
  oddflow score rows.oddflow rows.csv --format csv`,
    )
    .action(async (model: string, files: string[], options) =>
      (await import('./commands/score.js')).score(model, files, options),
    )
}

function evaluateCommand(): Command {
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
      (await import('./commands/evaluate.js')).evaluate(model, options),
    )
}

function updateCommand(): Command {
  const command = new Command('update')
    .description('update a model with more traffic')
    .addArgument(new Argument('<model>', 'a model file'))
    .addArgument(inputs())
    .requiredOption('-o, --output <model>', 'the model file to write; may be the one that is read')
    .option('--assume-normal', 'treat every row as normal, even if the model finds it novel')
    .addOption(
      new Option(
        '--method <number>',
        'method 1 runs EM after each round of 100 rows, method 2 also after each batch of rows within a round (default: 1)',
      ).choices(['1', '2']),
    )
    .option(
      '--half-life <rows>',
      'halve the weight of a row after this many later rows (default: no forgetting)',
      number,
    )
    .addOption(
      new Option(
        '--novel <policy>',
        'how to treat novel rows: disregard them, hold them until confirmed, or learn them (default: hold)',
      ).choices(['disregard', 'hold', 'learn']),
    )
    .option(
      '--confirm <inputs>',
      'learn held rows once similar rows were in this many inputs (default: never)',
      whole,
    )
    .addOption(
      new Option(
        '--sketch <policy>',
        'what to do with the landmarks when a new component is learned (default: grow)',
      ).choices(['keep', 'grow', 'replace']),
    )
    .option(
      '--no-guard',
      'keep every round of learning, even if rows that must stay novel would become normal',
    )
    .option(
      '--shadow-agrees',
      'learn only rows that the original model, as it was before all updates, finds normal too',
    )
    .option('--defaults', 'use the defaults instead of the options of earlier updates')
    .option('--known-novel <rows>', 'a file of feature rows that must stay novel')
    .option('--journal <file>', 'write every step to a new file, for oddflow replay')
    .option(
      '--seed <number>',
      'seed of all randomness, for the first update of a model; later updates use the same seed (default: 1)',
      whole,
    )
  return withFlowMemory(withCaptureFlags(withFormat(command, ['text', 'json']), true), OPEN_FLOWS)
    .addHelpText(
      'after',
      `
${INPUT_HELP}

An ensemble, the default detector, learns only with --assume-normal and takes none of the other learning options.

A mixture learns rows that the model finds normal. It holds novel rows until similar rows appear in other inputs
(--confirm), or until you say that all rows are normal (--assume-normal). The guard undoes a round if rows
that must stay novel would become normal. The next update uses the same options, except --assume-normal, --known-novel
and --journal. --defaults sets them back; then the guard is on.

Examples:
  oddflow update camera.oddflow after-upgrade.pcap -o camera-2.oddflow --assume-normal
  oddflow update mixture.oddflow today.pcap -o mixture.oddflow
  oddflow update mixture.oddflow day-*.pcap -o mixture.oddflow --confirm 3 --half-life 20000 --journal may-3.jsonl`,
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
    .description('report whether and how traffic has drifted from a model')
    .addArgument(new Argument('<model>', 'a model file'))
    .addArgument(inputs())
  return withFlowMemory(withCaptureFlags(withFormat(command, ['text', 'json']), true), OPEN_FLOWS)
    .addHelpText(
      'after',
      `
${INPUT_HELP}

drift needs no labels, but the model must have a mixture, as --detector oc-kjl-qs gives it. With an ensemble, the
default detector, score the traffic and look at the share of novel flows instead.

drift compares three things with the training: the scores, the share of novel rows, and the share of the rows that
belong to each component of the mixture.

Examples:
  oddflow drift mixture.oddflow today.pcap
  oddflow drift mixture.oddflow week-*.pcap.gz --format json | jq .findings`,
    )
    .action(async (model: string, files: string[], options) =>
      (await import('./commands/drift.js')).drift(model, files, options),
    )
}

function replayCommand(): Command {
  const command = new Command('replay')
    .description('repeat the steps of an update from its journal')
    .addArgument(new Argument('<model>', 'the model that oddflow update --journal started from'))
    .addArgument(new Argument('<journal>', 'the journal'))
    .requiredOption('-o, --output <model>', 'the model file to write')
    .option('--steps <count>', 'replay only this many steps, from the first (default: all)', whole)
  return withFormat(command, ['text', 'json'])
    .addHelpText(
      'after',
      `
Examples:
  oddflow replay mixture.oddflow may-3.jsonl -o again.oddflow
  oddflow replay mixture.oddflow may-3.jsonl -o undone.oddflow --steps 12`,
    )
    .action(async (model: string, journal: string, options) =>
      (await import('./commands/replay.js')).replay(model, journal, options),
    )
}

function inspectCommand(): Command {
  return withFormat(
    new Command('inspect').description('show what a model file holds and its detection limits'),
    ['text', 'json'],
  )
    .addArgument(new Argument('<model>', 'a model file'))
    .addHelpText('after', '\nExample:\n  oddflow inspect camera.oddflow')
    .action(async (model: string, options) =>
      (await import('./commands/model-file.js')).inspect(model, options),
    )
}

function infoCommand(): Command {
  const command = new Command('info')
    .description('show what a capture holds')
    .addArgument(new Argument('<capture...>', 'captures; - is standard input'))
  return withCaptureFlags(withFormat(command, ['text', 'json']))
    .addHelpText(
      'after',
      `
With --filter, info counts only the packets that match.

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
      'rows: .npy, .csv, or - for .csv on standard output; flow records: .jsonl, .csv, .parquet, .npy, or - for .jsonl on standard output',
    )
    .option('--flows', "write flow records of all transports, with the field names of Zeek's conn.log")
    .option(
      '--model <model>',
      'write the rows that this model expects; the model sets their features, duration and width',
    )
    .addOption(
      new Option(
        '--recipe <name>',
        'preset of options: default, paper, or authors (IPv4 flows of one direction); any other option you give overrides it',
      ).choices(Object.keys(RECIPES)),
    )
  withFlowMemory(
    command,
    'memory for the packets of all flows (default: 1G). With --flows: memory for open flows (default: 32M); when it is full, the least active flows end early',
  )
  return withFlowFlags(withCaptureFlags(command), 'truncate')
    .addHelpText(
      'after',
      `
Rows are the flow summaries that train learns from. In a .csv, train recognizes the service column by its name. With
--features iat-size and other packet feature sets, extract learns the duration and the width of a row from these
captures. It then makes one row from the beginning of each flow, as the paper does. (The paper's times are in
microseconds: --iat-unit us.) --model makes the rows that a model expects.

Examples:
  oddflow extract normal.pcap -o rows.csv
  oddflow extract today.pcap -o rows.csv --model camera.oddflow
  oddflow extract normal.pcap -o rows.csv --features stats-header --iat-unit us
  oddflow extract normal.pcap -o paper.npy --recipe paper
  oddflow extract normal.pcap -o authors.npy --recipe authors
  oddflow extract --flows today.pcap -o flows.parquet
  oddflow extract --flows today.pcap -o - | jq -r .community_id`,
    )
    .action(async (files: string[], options) =>
      (await import('./commands/extract.js')).extract(files, options),
    )
}

function exportCommand(): Command {
  return new Command('export')
    .description('write a model as source code that scores rows without OddFlow')
    .argument('<model>', 'model file')
    .addOption(
      new Option('--to <language>', 'c: one C99 header, without allocation')
        .choices(['c'])
        .makeOptionMandatory(),
    )
    .requiredOption('-o, --output <file>', 'the header; - is standard output')
    .option(
      '--name <prefix>',
      'prefix of all names in the header, so that one program can use several models',
      'oddflow',
    )
    .addHelpText(
      'after',
      `
The header works for every detector: it gives the same scores to the last bit, and the verdict of the threshold. Its first
lines say how to compile it, which columns it expects, and how many bytes it takes. It scores rows that extract writes.
The rules for groups of flows and for flows of one packet are not in it.

In C:
  #include "camera.h"
  double row[CAMERA_COLUMNS] = { ... };
  if (camera_is_novel(camera_score(row))) ...

Examples:
  oddflow export camera.oddflow --to c --name camera -o camera.h
  gcc -std=c99 -ffp-contract=off -O2 main.c -lm`,
    )
    .action(async (model: string, options) =>
      (await import('./commands/model-file.js')).exportModel(model, options),
    )
}

function signCommand(): Command {
  return new Command('sign')
    .description(
      'sign model files, for agents that accept only signed ones (modelKey in their configuration)',
    )
    .argument('<models...>', 'model files; the signature of MODEL is written to MODEL.sig')
    .requiredOption('--key <file>', 'an Ed25519 private key, in PEM')
    .addHelpText(
      'after',
      `
To make the key, and its public key for the agent:
  openssl genpkey -algorithm ed25519 -out models.key
  openssl pkey -in models.key -pubout -out models.pub

Examples:
  oddflow sign camera.oddflow --key models.key`,
    )
    .action(async (models: string[], options) =>
      (await import('./commands/model-file.js')).sign(models, options),
    )
}

function demoCommand(): Command {
  return new Command('demo')
    .description('train and score on captures that come with OddFlow, and write a report')
    .option('-o, --output <page>', 'the report to write', 'oddflow-report.html')
    .option('--seed <number>', 'seed of all randomness', whole, 1)
    .addHelpText('after', '\nExample:\n  oddflow demo -o /tmp/report.html')
    .action(async (options) => (await import('./commands/demo.js')).demo(options))
}

/** In the order of the help. */
export const COMMANDS: readonly (() => Command)[] = [
  trainCommand,
  scoreCommand,
  evaluateCommand,
  updateCommand,
  driftCommand,
  replayCommand,
  inspectCommand,
  infoCommand,
  extractCommand,
  exportCommand,
  signCommand,
  demoCommand,
]
