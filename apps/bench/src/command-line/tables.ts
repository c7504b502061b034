/** `tables`. */
import { Command } from 'commander'
import { names, RESULTS, TRIALS, withManifests } from '../commands/options.js'

export function tablesCommand(): Command {
  return withManifests(new Command('tables'))
    .description("write the paper's tables with the measured figures, from trials only")
    .option('--trials <files>', 'files of trials, separated by commas; several machines are merged', names, [
      TRIALS,
    ])
    .option('--results <dir>', 'folder with machines.jsonl and sweep-*.jsonl, for their pages', RESULTS)
    .option('--out <dir>', 'folder for paper-tables.md, .tex, .csv and the other pages', RESULTS)
    .addHelpText(
      'after',
      '\nExamples:\n  oddflow-bench tables\n  oddflow-bench tables --trials server.jsonl,rspi.jsonl --out results',
    )
    .action(async (options) => {
      const { tables } = await import('../commands/tables.js')
      tables(options)
    })
}
