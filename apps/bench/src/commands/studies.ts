/** A command for each study. */
import { dirname, join } from 'node:path'
import { Command } from 'commander'
import { note, print, writeFileWhole } from '../output.js'
import { STUDIES } from '../studies/registry.js'
import type { Study } from '../studies/study.js'
import { defaultData, RESULTS } from './options.js'

export function studyCommands(): Command[] {
  return STUDIES.map(studyCommand)
}

function studyCommand(study: Study): Command {
  const command = new Command(study.name).description(study.description)
  command.option('--data <dir>', 'folder that contains watch, week, pairs and paper', dirname(defaultData()))
  return study
    .configure(command)
    .option('--out <dir>', `folder for ${study.name}.json and ${study.name}.md`, RESULTS)
    .action(async (options) => {
      const made = await study.measure(options, commandOf(study, process.argv), note)
      if ('printed' in made) {
        for (const line of made.printed.trimEnd().split('\n')) print(line)
        return
      }
      for (const [name, content] of made.files) writeFileWhole(join(options.out, name), content)
      note(`${options.out}: ${[...made.files.keys()].join(', ')}`)
    })
}

/** For the page: what was asked of the study, without the places of files. */
function commandOf({ name }: Study, given: readonly string[]): string {
  const asked: string[] = []
  for (let i = given.indexOf(name) + 1; i < given.length; i++) {
    if (given[i] === '--data' || given[i] === '--out') i++
    else if (!/^--(data|out)=/.test(given[i]!)) asked.push(given[i]!)
  }
  return ['npm run -s oddflow-bench --', name, ...asked].join(' ')
}
