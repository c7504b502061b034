/** `data list`, `data verify`, `data prepare`: the data sets, before anything is measured. */
import { Command, Option } from 'commander'
import { defaultData, names, withManifests, withTrainRows } from '../commands/options.js'

export function dataCommand(): Command {
  return new Command('data')
    .description('the data sets: what there is, whether it is whole')
    .addCommand(listCommand())
    .addCommand(verifyCommand())
    .addCommand(prepareCommand())
}

function listCommand(): Command {
  return withManifests(new Command('list'))
    .description('the data sets: size, source, what the paper says of them')
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
    .description('whether each data set is there and as its manifest says')
    .argument('[dir]', 'folder of the data sets', defaultData())
    .option('--datasets <names>', 'these alone, separated by commas', names)
    .addHelpText('after', '\nExample:\n  oddflow-bench data verify ~/captures --datasets ctu,maccdc')
    .action(async (dir, options) => {
      const { dataVerify } = await import('../commands/data.js')
      process.exitCode = await dataVerify(dir, options)
    })
}

function prepareCommand(): Command {
  return withTrainRows(withManifests(new Command('prepare')))
    .description('captures into pools of feature rows; what is prepared already is left as it is')
    .argument('<dir>', 'folder of the data sets: DIR/NAME/normal/*.pcap and DIR/NAME/novel/*.pcap')
    .option('--datasets <names>', 'these alone, separated by commas', names)
    .addHelpText('after', '\nExample:\n  oddflow-bench data prepare ~/captures --datasets ctu')
    .action(async (dir, options) => {
      const { dataPrepare } = await import('../commands/data.js')
      process.exitCode = await dataPrepare(dir, options)
    })
}
