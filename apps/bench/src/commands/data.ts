/** `oddflow-bench data list`: the manifests, for a person or as JSON lines. */
import { OddFlowError } from '@oddflow/core'
import { UsageError } from '@oddflow/program'
import { Command, Option } from 'commander'
import { datasetFolder, requireFolder } from '../datasets/load-repeat.js'
import { type CapturesManifest, chooseManifests, type Manifest, readManifests } from '../datasets/manifest.js'
import { trainRowsOf, whatIsMissing } from '../datasets/pools.js'
import { bytesToPrepare, type PoolReport, preparePools, verifyDataset } from '../datasets/prepare.js'
import { complain, createProgress, note, print } from '../output.js'
import { type CommandOptions, defaultData, names, withOptions } from './options.js'

export function dataCommand(): Command {
  return new Command('data')
    .description('list, verify and prepare the data sets')
    .addCommand(listCommand())
    .addCommand(verifyCommand())
    .addCommand(prepareCommand())
}

function listCommand(): Command {
  return withOptions(new Command('list'), 'manifests')
    .description('list the data sets: size, source, and what the paper says about them')
    .addOption(
      new Option('--format <format>', 'text or json (lines)').choices(['text', 'json']).default('text'),
    )
    .addHelpText('after', '\nExample:\n  oddflow-bench data list --format json')
    .action((options) => {
      dataList(options)
    })
}

function verifyCommand(): Command {
  return withOptions(new Command('verify'), 'manifests', 'trainRows')
    .description('check that each data set is present and matches its manifest')
    .argument('[dir]', 'folder of the data sets', defaultData())
    .option('--datasets <names>', 'only these data sets, separated by commas', names)
    .addHelpText('after', '\nExample:\n  oddflow-bench data verify ~/captures --datasets ctu,maccdc')
    .action(async (dir, options) => {
      process.exitCode = await dataVerify(dir, options)
    })
}

function prepareCommand(): Command {
  return withOptions(new Command('prepare'), 'manifests', 'trainRows')
    .description('turn captures into pools of feature rows; pools that are up to date are kept')
    .argument('<dir>', 'folder of the data sets: DIR/NAME/normal/*.pcap and DIR/NAME/novel/*.pcap')
    .option('--datasets <names>', 'only these data sets, separated by commas', names)
    .addHelpText('after', '\nExample:\n  oddflow-bench data prepare ~/captures --datasets ctu')
    .action(async (dir, options) => {
      process.exitCode = await dataPrepare(dir, options)
    })
}

type DataOptions = Pick<CommandOptions, 'manifests' | 'datasets'> & { readonly trainRows?: number }

async function dataVerify(dir: string, options: DataOptions): Promise<number> {
  const manifests = chooseManifests(readManifests(options.manifests), options.datasets)
  requireFolder(dir)
  let faults = 0
  for (const manifest of manifests) {
    for (const { ok, text } of verifyDataset(manifest, dir, options.trainRows)) {
      print(`${manifest.name}: ${ok ? 'ok: ' : ''}${text}`)
      if (!ok) faults++
    }
  }
  return faults === 0 ? 0 : 1
}

async function dataPrepare(dir: string, options: DataOptions): Promise<number> {
  const chosen = chooseManifests(readManifests(options.manifests), options.datasets)
  const rows = chosen.find(({ kind }) => kind === 'rows')
  if (rows !== undefined && options.datasets !== undefined) {
    throw new UsageError(`${rows.name}: has feature rows already; there is nothing to prepare`)
  }
  const manifests = chosen.filter((manifest): manifest is CapturesManifest => manifest.kind === 'captures')
  if (manifests.length === 0) {
    throw new UsageError('all data sets have feature rows already; there is nothing to prepare')
  }
  requireFolder(dir)
  const progress = createProgress()
  let failures = 0
  let last = ''
  let done = 0
  progress.start(manifests.reduce((sum, one) => sum + bytesToPrepare(one, datasetFolder(one, dir)), 0))
  for (const manifest of manifests) {
    const end = done + bytesToPrepare(manifest, datasetFolder(manifest, dir))
    last = `${manifest.name}: looking for changes`
    try {
      const report = await preparePools(
        manifest,
        datasetFolder(manifest, dir),
        (file) => {
          last = file
        },
        (bytes) => {
          done += bytes
          progress.update(done, last)
        },
      )
      for (const warning of report.warnings) note(`${manifest.name}: ${warning}`)
      for (const pool of report.pools) {
        print(`${manifest.name}, ${pool.features}: ${report.done}: ${describePrepared(pool, manifest)}`)
        const missing = whatIsMissing(pool, trainRowsOf(manifest, options.trainRows))
        if (missing !== null) note(`${manifest.name}, ${pool.features}: ${missing}`)
      }
    } catch (error) {
      if (!(error instanceof OddFlowError)) throw error
      failures++
      complain(`${manifest.name}: ${error.message}`)
    }
    done = end
  }
  progress.stop()
  return failures === 0 ? 0 : 1
}

function describePrepared({ normal, novel, dimension }: PoolReport, manifest: CapturesManifest): string {
  const expected = (side: 'normal' | 'novel'): string => {
    const count = manifest[side].expectedFlows
    return count === null ? '' : ` (the appendix has ${count})`
  }
  return `${normal} normal rows${expected('normal')}, ${novel} novel ones${expected('novel')}, D = ${dimension}`
}

function dataList(options: { readonly manifests?: string; readonly format: 'text' | 'json' }): void {
  for (const manifest of readManifests(options.manifests)) {
    if (options.format === 'json') print(JSON.stringify(manifest))
    else for (const line of describe(manifest)) print(line)
  }
}

function describe(manifest: Manifest): string[] {
  const head = `${manifest.name}: ${manifest.title}`
  if (manifest.kind === 'rows') {
    const lines = [
      head,
      `  feature rows: ${manifest.features}, D = ${manifest.dimension}, ${manifest.repeats} repeats, in ${manifest.folder}/`,
    ]
    return manifest.note === null ? lines : [...lines, `  ${manifest.note}`]
  }
  const { source, normal, novel } = manifest
  const flows = (count: number | null): string => (count === null ? 'an unknown number of' : String(count))
  const offered =
    source.publisher === null ? source.access : `${source.publisher}, ${source.address ?? 'no address known'}`
  return [
    head,
    `  captures: ${offered}${source.collected === null ? '' : `; ${source.collected}`}`,
    `  normal: ${flows(normal.expectedFlows)} flows of ${normal.addresses.join(', ')}`,
    `  novel: ${flows(novel.expectedFlows)} flows of ${novel.addresses.join(', ')} (${manifest.novelty})`,
    `  ${manifest.labelRule}`,
  ]
}
