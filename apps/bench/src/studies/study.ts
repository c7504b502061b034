/**
 * A study: one question, one command, one page of docs/results; one file of this folder and one line of registry.ts.
 * `oddflow-bench NAME` writes NAME.json and NAME.md; `oddflow-bench tables` draws the page again from the figures.
 */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { jsonLine } from '@oddflow/program'
import { Command } from 'commander'
import { z } from 'zod'
import { defaultData, RESULTS, whole } from '../commands/options.js'
import { count, readShape, share, text, writeFileWhole } from '../files.js'
import { note, printText } from '../output.js'
import { describeMachine, describeVersions } from '../run/machine.js'
import { fixed, markdownTable, plainText } from '../tables/table.js'

/** What draws pictures. It takes long to load, so it is loaded only where a page has some. */
export type Drawing = typeof import('../tables/figures.js')

export interface StudyDefinition<Options, Figures> {
  /** Of the command, and of its two files. */
  readonly name: string
  /** Of the page. */
  readonly title: string
  /** For --help. */
  readonly description: string
  /** Adds the options that the study takes beside --data and --out. */
  readonly configure?: (command: Command) => Command
  /** Of NAME.json, which is checked when it is read. */
  readonly figures: z.ZodType<Figures>
  readonly run: (options: Options & StudyOptions) => Promise<Figures>
  /** Markdown between title and provenance. */
  readonly page: (figures: Figures) => string
  /** SVG files that the page shows, by name. */
  readonly pictures?: (figures: Figures, drawing: Drawing) => Readonly<Record<string, string>>
  /** The reading is printed in place of being kept: it is not of the default. */
  readonly isTrial?: (options: Options) => boolean
}

export interface StudyOptions {
  /** Folder of the evidence: watch, week, pairs, paper. */
  readonly data: string
}

export interface Study {
  readonly name: string
  /** Of the command line. */
  command(): Command
  /** NAME.md and pictures of the figures that a folder holds; none where it holds none. Errors begin with the path. */
  draw(folder: string): Promise<ReadonlyMap<string, string>>
}

export function defineStudy<Options, Figures>(definition: StudyDefinition<Options, Figures>): Study {
  const { name, description, configure = (command) => command } = definition
  const reading = z.strictObject({
    format: z.literal(1),
    study: z.literal(name),
    command: text,
    machine: text,
    versions: text,
    figures: definition.figures,
  })
  type Reading = z.infer<typeof reading>
  const pagesOf = async (made: Reading): Promise<[name: string, content: string][]> => {
    const pages: [string, string][] = [[`${name}.md`, render(made)]]
    if (definition.pictures === undefined) return pages
    const drawing = await import('../tables/figures.js')
    return [...pages, ...Object.entries(definition.pictures(made.figures as Figures, drawing))]
  }
  const render = ({ figures, command, machine, versions }: Reading): string =>
    `# ${definition.title}

${definition.page(figures as Figures)}

- Command: \`${command}\`; figures: [${name}.json](${name}.json)
- Machine: ${plainText(machine)}; ${plainText(versions)}
`
  const measure = async (options: Options & StudyOptions & { readonly out: string }): Promise<void> => {
    const figures = await definition.run(options)
    const { cpu, logicalCpus, architecture } = describeMachine('here', 1)
    const versions = Object.entries(describeVersions()).map(([program, version]) => `${program} ${version}`)
    const made = reading.parse({
      format: 1,
      study: name,
      command: commandOf(name, process.argv),
      machine: `${cpu}, ${logicalCpus} logical CPUs, ${architecture}`,
      versions: versions.join(', '),
      figures,
    })
    if (definition.isTrial?.(options) === true) {
      printText(render(made))
      return
    }
    const files = [[`${name}.json`, `${jsonLine(made)}\n`] as const, ...(await pagesOf(made))]
    for (const [file, content] of files) writeFileWhole(join(options.out, file), content)
    note(`${options.out}: ${files.map(([file]) => file).join(', ')}`)
  }
  return {
    name,
    command: () =>
      configure(withEvidence(new Command(name).description(description)))
        .option('--out <dir>', `folder for ${name}.json and ${name}.md`, RESULTS)
        .action(measure),
    async draw(folder) {
      const path = join(folder, `${name}.json`)
      if (!existsSync(path)) return new Map()
      return new Map(await pagesOf(readShape(reading, path, 'study')))
    },
  }
}

export function withEvidence(command: Command): Command {
  return command.option(
    '--data <dir>',
    'folder that contains watch, week, pairs and paper',
    dirname(defaultData()),
  )
}

/** For the page: what was asked of the study, without the places of files. */
function commandOf(name: string, given: readonly string[]): string {
  const asked: string[] = []
  for (let i = given.indexOf(name) + 1; i < given.length; i++) {
    if (/^--(data|out|agent)$/.test(given[i]!)) i++
    else if (!/^--(data|out|agent)=/.test(given[i]!)) asked.push(given[i]!)
  }
  return ['npm run -s oddflow-bench --', name, ...asked].join(' ')
}

export interface SeedOptions {
  readonly seeds: number
}

export const withSeeds =
  (what: string, otherwise: number) =>
  (command: Command): Command =>
    command.option('--seeds <count>', what, whole(1, 100), otherwise)

/** What a model finds of novel flows beside normal ones, as figures keep it. */
export const findingsShape = {
  normalFlows: count,
  novelFlows: count,
  auc: share,
  /** Share of novel flows found where at most 1 % of the normal ones are flagged. */
  found: share,
  /** Shares flagged at the model's own threshold. */
  normalFlagged: share,
  novelFlagged: share,
  /** Shares of captures flagged as groups; null of a model without a level for them. */
  groups: z.strictObject({ normal: share, novel: share }).nullable(),
}
const findings = z.strictObject(findingsShape)
export type Findings = Readonly<z.infer<typeof findings>>

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

/** The upper one of an even number. */
export function median(values: readonly number[]): number {
  return values.slice().sort((a, b) => a - b)[values.length >> 1]!
}

export const unique = <T>(values: readonly T[]): T[] => [...new Set(values)]

export const three = (value: number): string => fixed(value, 3)
/** ".123". */
export const fraction = (value: number): string => three(value).replace(/^(−?)0/, '$1')
/** "+.123". */
export const signed = (value: number): string => `${value < 0 ? '−' : '+'}${fraction(Math.abs(value))}`
/** "1.2 %". */
export const percent = (value: number): string => `${fixed(100 * value, 1)} %`

/** Of captures flagged as groups, normal and novel; '' of a model without a level for them. */
export const sharesOfGroups = (groups: Findings['groups']): string =>
  groups === null ? '' : `${percent(groups.normal)}, ${percent(groups.novel)}`

export type Target = readonly [
  what: string,
  value: number,
  target: { readonly least: number } | { readonly most: number },
  format?: (value: number) => string,
]

/** What is asked, what was measured, and whether that is enough. */
export function targetTable(targets: readonly Target[]): string {
  const rows = targets.map(([what, value, target, format = three]) => {
    const isLeast = 'least' in target
    const limit = isLeast ? target.least : target.most
    const reached = isLeast ? value >= limit : value <= limit
    return [what, `${isLeast ? '≥' : '≤'} ${format(limit)}`, format(value), reached ? 'reached' : 'missed']
  })
  return markdownTable(['', 'asked', 'measured', ''], rows, 1)
}
