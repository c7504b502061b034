/**
 * The command line: which commands there are. What each takes, and what its help says, is a file of command-line/;
 * what it does is one of commands/, loaded when it is called.
 */
import { oneLineErrors } from '@oddflow/program'
import { completionCommand } from '@oddflow/program/completion'
import { Command } from 'commander'
import { compareCommand } from './commands/compare.js'
import { dataCommand } from './commands/data.js'
import { bundleCommand, machinesCommand, mergeCommand } from './commands/machines.js'
import { peersCommand } from './commands/peers.js'
import { reproduceCommand, tablesCommand } from './commands/reproduce.js'
import { sweepCommand } from './commands/sweep.js'
import { VERSION } from './run/machine.js'
import { STUDIES } from './studies/registry.js'

export function createProgram(): Command {
  const program = new Command('oddflow-bench')
    .description(
      "Measure one-class detectors with the paper's protocol, and show the figures beside the paper's.",
    )
    .version(VERSION, '--version', 'print the version and end')
    .helpOption('-h, --help', 'print this help and end')
    .exitOverride()
    .configureOutput(oneLineErrors('oddflow-bench --help'))
    .addHelpText(
      'after',
      `
Examples:
  oddflow-bench compare --train mon.pcap tue.pcap --normal wed.pcap --novel scan.pcap
  oddflow-bench data list
  oddflow-bench data verify
  oddflow-bench reproduce --tuning none --datasets unb-rows,ctu-rows --detectors oc-kjl-qs,oc-nystrom-qs
  oddflow-bench tables

The data sets are in data below the folder that the environment variable ODDFLOW_SHARED names, or below ../shared.
Exit codes: 0 done, 1 the data is unusable or a trial failed, 2 the command line was wrong.`,
    )
  const data = dataCommand()
  for (const command of [
    compareCommand(),
    data,
    reproduceCommand(),
    sweepCommand(),
    peersCommand(),
    machinesCommand(),
    bundleCommand(),
    mergeCommand(),
    tablesCommand(),
    ...STUDIES.map((study) => study.command()),
    completionCommand(program, VERSION),
  ]) {
    program.addCommand(command)
  }
  for (const command of [data, ...data.commands, ...program.commands]) {
    const path = data.commands.includes(command) ? `data ${command.name()}` : command.name()
    command.exitOverride().configureOutput(oneLineErrors(`oddflow-bench ${path} --help`))
  }
  return program
}
