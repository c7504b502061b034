/**
 * The detectors' own options as flags of `train`: one entry for each, and the compiler refuses an option of
 * @oddflow/detectors that has none.
 *
 * A flag is its option's name in kebab-case. Which detectors take it, and its default, stand in the library and
 * are read from there, so that the help cannot say anything else.
 */
import { SCALER_NAMES } from '@oddflow/core'
import { DEFAULT_OPTIONS, DETECTOR_NAMES, DETECTORS, type OptionName } from '@oddflow/detectors'
import { type Command, Option } from 'commander'
import { flagOf, list, number, whole } from './flags.js'

interface DetectorFlag {
  readonly group: 'Detector' | 'Embedding' | 'Mixture' | 'One-class SVM' | 'Other detectors'
  /** What stands for the value in the help; none for a switch. */
  readonly value?: string
  readonly parse?: (text: string) => unknown
  readonly choices?: readonly string[]
  readonly help: string
  /** Of a switch: what `--no-…` says. */
  readonly off?: string
  /** Where it is not a value of DEFAULT_OPTIONS. */
  readonly byDefault?: string
}

const DETECTOR_FLAGS: Readonly<Record<OptionName, DetectorFlag>> = {
  scaler: {
    group: 'Detector',
    value: 'name',
    choices: SCALER_NAMES,
    help: 'scaling of feature columns',
  },
  precision: {
    group: 'Detector',
    value: 'type',
    choices: ['f64', 'f32'],
    help: 'kernel values as float64, or as float32: about twice as fast, half the space, scores exact to about six digits',
  },
  bandwidthQuantile: {
    group: 'Detector',
    value: 'q',
    parse: number,
    help: 'kernel bandwidth as a quantile of the distances between pairs of rows',
  },
  quantileCompat: {
    group: 'Detector',
    value: 'rule',
    choices: ['pairs', 'authors', 'positive-pairs'],
    help: "distances between different rows (the paper's text), the whole matrix with its zero diagonal (the authors' program), or, where rows repeat so that the first is 0, those above 0",
  },
  quantileRows: {
    group: 'Detector',
    value: 'count',
    parse: whole,
    help: 'maximum number of rows whose distances are ranked; of more rows, a random sample (time grows with the square)',
  },
  m: { group: 'Embedding', value: 'count', parse: whole, help: 'landmarks', byDefault: '100; ensemble: 128' },
  landmarks: {
    group: 'Embedding',
    value: 'choice',
    choices: ['random', 'farthest-first'],
    help: 'which rows become landmarks: random ones, or those that cover all rows, rare kinds included',
  },
  d: { group: 'Embedding', value: 'count', parse: whole, help: 'dimensions of the embedding' },
  centre: {
    group: 'Embedding',
    help: 'centre the columns of the gram matrix',
    off: 'leave them as they are',
  },
  supportGuard: {
    group: 'Embedding',
    help: 'make a row far from every landmark novel',
    off: 'score as the paper does, without a guard',
  },
  k: { group: 'Mixture', value: 'count', parse: whole, help: 'components' },
  covariance: {
    group: 'Mixture',
    value: 'type',
    choices: ['full', 'diagonal', 'tied', 'spherical'],
    help: "form of the components' covariances",
  },
  regularisation: {
    group: 'Mixture',
    value: 'amount',
    parse: number,
    help: 'added to the diagonal of each covariance, and raised when a covariance is still singular',
  },
  tolerance: {
    group: 'Mixture',
    value: 'amount',
    parse: number,
    help: 'stop EM when the mean log-likelihood changes by less, a one-class SVM when no optimality condition is violated by more',
  },
  maximumSteps: { group: 'Mixture', value: 'count', parse: whole, help: 'maximum number of EM steps' },
  beta: {
    group: 'Mixture',
    value: 'share',
    parse: number,
    help: 'QuickShift++: share of density by which a cluster core may fall below its peak',
  },
  neighbours: {
    group: 'Mixture',
    value: 'count',
    parse: whole,
    help: 'QuickShift++: number of neighbours, including the row itself',
    byDefault: 'rows^(2/3)',
  },
  coverage: {
    group: 'Mixture',
    value: 'share',
    parse: number,
    help: 'QuickShift++: keep clusters, largest first, until they hold more than this share of rows',
  },
  maximumClusters: {
    group: 'Mixture',
    value: 'count',
    parse: whole,
    help: 'QuickShift++: maximum number of clusters to keep',
  },
  clusterSearchRows: {
    group: 'Mixture',
    value: 'count',
    parse: whole,
    help: 'QuickShift++: maximum number of rows to search; of more rows, a random sample',
  },
  mixtureStart: {
    group: 'Mixture',
    value: 'name',
    choices: ['clusters', 'k-means++'],
    help: 'start EM from the clusters of QuickShift++, or from as many clusters of k-means++',
  },
  nu: {
    group: 'One-class SVM',
    value: 'share',
    parse: number,
    help: 'share of training rows left outside',
  },
  kernel: {
    group: 'One-class SVM',
    value: 'name',
    choices: ['rbf', 'linear'],
    help: 'Gaussian kernel, or none',
  },
  maximumRows: {
    group: 'Other detectors',
    value: 'count',
    parse: whole,
    help: 'maximum number of training rows that become kernels',
  },
  trees: { group: 'Other detectors', value: 'count', parse: whole, help: 'trees of the forest' },
  subsampleRows: {
    group: 'Other detectors',
    value: 'count',
    parse: whole,
    help: 'rows that each tree grows on',
  },
  varianceShare: {
    group: 'Other detectors',
    value: 'share',
    parse: number,
    help: 'keep components until they hold more than this share of the variance',
  },
  components: {
    group: 'Other detectors',
    value: 'count',
    parse: whole,
    help: 'number of components to keep, instead of --variance-share',
    byDefault: 'as --variance-share says',
  },
  bins: { group: 'Other detectors', value: 'count', parse: whole, help: 'bins of the histogram of a column' },
  members: {
    group: 'Other detectors',
    value: 'list',
    parse: list((name) => name),
    help: 'detectors whose surprises are added up',
  },
}

/** Every option of the detectors, in the order of the help. */
export const DETECTOR_OPTION_NAMES = Object.keys(DETECTOR_FLAGS) as OptionName[]

export function withDetectorFlags(command: Command): Command {
  const names = new Option(
    '--detector <name>',
    `one of ${DETECTOR_NAMES.join(', ')} (default: ensemble for flow-summary, else oc-kjl-qs)`,
  )
  command.addOption(names.helpGroup('Detector:'))
  for (const name of DETECTOR_OPTION_NAMES) {
    for (const option of optionsOf(name))
      command.addOption(option.helpGroup(`${DETECTOR_FLAGS[name].group}:`))
  }
  return command
}

/** What the documents say of each flag; `detectors` is empty where all take it. */
export function detectorFlagRows(): { flag: string; detectors: string; byDefault: string; help: string }[] {
  return DETECTOR_OPTION_NAMES.map((name) => {
    const { value, help, choices } = DETECTOR_FLAGS[name]
    const flag = value === undefined ? flagOf(name).replace(/^--/, '--[no-]') : flagOf(name)
    return {
      flag: choices === undefined ? flag : `${flag} ${choices.join(', ')}`,
      detectors: takersOf(name),
      byDefault: value === undefined ? (defaultOf(name) === 'true' ? 'yes' : 'no') : defaultOf(name),
      help,
    }
  })
}

/** One option, or two for a switch. */
function optionsOf(name: OptionName): Option[] {
  const { value, help, off, parse, choices } = DETECTOR_FLAGS[name]
  const flag = flagOf(name)
  if (value === undefined) {
    const isOn = defaultOf(name) === 'true'
    return [
      new Option(flag, `${help} (${join(takersOf(name), isOn ? 'default' : '')})`),
      new Option(flag.replace(/^--/, '--no-'), `${off ?? 'do not'}${isOn ? '' : ' (default)'}`),
    ]
  }
  const option = new Option(
    `${flag} <${value}>`,
    `${help} (${join(takersOf(name), `default: ${defaultOf(name)}`)})`,
  )
  if (parse !== undefined) option.argParser(parse)
  return choices === undefined ? [option] : [option.choices([...choices])]
}

function defaultOf(name: OptionName): string {
  const { byDefault } = DETECTOR_FLAGS[name]
  return byDefault ?? String((DEFAULT_OPTIONS as Readonly<Record<string, unknown>>)[name])
}

/** "oc-kjl, gmm"; empty where all detectors take it. */
function takersOf(option: OptionName): string {
  const takers = DETECTOR_NAMES.filter((name) => DETECTORS[name].options.includes(option))
  return takers.length === DETECTOR_NAMES.length ? '' : takers.join(', ')
}

function join(takers: string, rest: string): string {
  return [takers, rest].filter((part) => part !== '').join('; ')
}
