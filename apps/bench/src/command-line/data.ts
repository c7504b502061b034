/** `data list`, `data verify`, `data prepare`: the data sets, before anything is measured. */
import { Command, Option } from 'commander'
import { defaultData, names, withManifests, withTrainRows } from '../commands/options.js'

export function dataCommand(): Command {
  return new Command('data')
    .description('list, verify and prepare the data sets')
    .addCommand(listCommand())
    .addCommand(verifyCommand())
    .addCommand(prepareCommand())
}

function listCommand(): Command {
  return withManifests(new Command('list'))
    .description('list the data sets: size, source, and what the paper says about them')
    .addOption(
      new Option('--format <format>', 'text or json (lines)').choices(['text', 'json']).default('text'),
    )
    .addHelpText('after', '\nExample:\n  oddflow-bench data list --format json')
    .action(async (options) => {
      const { dataList } = await import('../commands/data.js')
      dataList(options)
    })
}

function verifyCommand(): Command {
  return withTrainRows(withManifests(new Command('verify')))
    .description('check that each data set is present and matches its manifest')
    .argument('[dir]', 'folder of the data sets', defaultData())
    .option('--datasets <names>', 'only these data sets, separated by commas', names)
    .addHelpText('after', '\nExample:\n  oddflow-bench data verify ~/captures --datasets ctu,maccdc')
    .action(async (dir, options) => {
      const { dataVerify } = await import('../commands/data.js')
      process.exitCode = await dataVerify(dir, options)
    })
}

function prepareCommand(): Command {
  return withTrainRows(withManifests(new Command('prepare')))
    .description('turn captures into pools of feature rows; pools that are up to date are kept')
    .argument('<dir>', 'folder of the data sets: DIR/NAME/normal/*.pcap and DIR/NAME/novel/*.pcap')
    .option('--datasets <names>', 'only these data sets, separated by commas', names)
    .addHelpText('after', '\nExample:\n  oddflow-bench data prepare ~/captures --datasets ctu')
    .action(async (dir, options) => {
      const { dataPrepare } = await import('../commands/data.js')
      process.exitCode = await dataPrepare(dir, options)
    })
}
