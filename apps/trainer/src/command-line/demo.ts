/** `demo`. */
import { Command } from 'commander'
import { whole } from '../flags.js'

export function demoCommand(): Command {
  return new Command('demo')
    .description('train and score on captures that come with OddFlow, and write a report')
    .option('-o, --output <page>', 'the report to write', 'oddflow-report.html')
    .option('--seed <number>', 'seed of all randomness', whole, 1)
    .addHelpText('after', '\nExample:\n  oddflow demo -o /tmp/report.html')
    .action(async (options) => (await import('../commands/demo.js')).demo(options))
}
