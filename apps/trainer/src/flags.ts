/** Options of the commands: for captures and flows, of the detectors, of the parameter search, and presets of them. */
import {
  type Decapsulation,
  type FeatureContract,
  FLOW_FEATURE_SETS,
  FLOW_PROTOCOLS,
  type FlowFeatureSet,
  type FlowKeyRule,
  type FlowProtocol,
  type IatUnit,
  type PacketView,
  packetView,
  type SizeMeasure,
  type TruncationMode,
} from '@oddflow/core'
import {
  DETECTOR_NAMES,
  DETECTORS,
  type DetectorName,
  type DetectorOptions,
  OPTION_NAMES,
  type OptionName,
  optionNamed,
  type QuantileCompat,
  type ScalerName,
} from '@oddflow/detectors'
import {
  applicableGrid,
  type Candidate,
  gridCandidates,
  orderedGrid,
  type ParameterGrid,
  PLAIN_ROWS_DETECTORS,
} from '@oddflow/evaluation'
import { parseBytes, UsageError } from '@oddflow/program'
import { Argument, type Command, CommanderError, Help, InvalidArgumentError, Option } from 'commander'

export function number(text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('expected a number.')
  return value
}

export function whole(text: string): number {
  const value = number(text)
  if (!Number.isSafeInteger(value) || value < 0)
    throw new InvalidArgumentError('expected a whole number of 0 or more.')
  return value
}

/** Values between commas. */
function list<T>(parse: (text: string) => T): (text: string) => T[] {
  return (text) => {
    try {
      return text.split(',').map((part) => parse(part.trim()))
    } catch (error) {
      if (!(error instanceof InvalidArgumentError)) throw error
      throw new InvalidArgumentError(`${error.message.replace(/\.$/, '')} between commas.`)
    }
  }
}

/** How captures are read, in all commands. Under a model the view is the model's, and asking for another is an error. */

export interface CaptureFlags {
  readonly filter?: string
  readonly decap?: Decapsulation
  readonly joinFragments?: boolean
  readonly dropDuplicates?: boolean
  readonly continuous?: boolean
  /** Bytes. */
  readonly flowMemory?: number
}

/** @param underModel whether the view is a model's, and the option only says it aloud. */
export function withCaptureFlags(command: Command, underModel = false): Command {
  return withGroup(command, 'Captures:', captureOptions(underModel ? "the model's" : 'outer', underModel))
}

function withGroup(command: Command, heading: string, options: readonly Option[]): Command {
  for (const option of options) command.addOption(option.helpGroup(heading))
  return command
}

const captureOptions = (usualView: string, underModel: boolean): Option[] => [
  new Option(
    '--filter <words>',
    "keep packets that match, in tcpdump's syntax: [src|dst] host, net, port, portrange, ether host, tcp, udp, icmp, ip, ip6, vlan, and, or, not, ( )",
  ),
  new Option(
    '--decap <view>',
    `which headers of a packet in a tunnel to use: the tunnel's (outer) or those inside it (inner) (default: ${usualView})`,
  ).choices(['outer', 'inner']),
  new Option(
    '--join-fragments',
    `put all fragments of an IP packet into its flow${underModel ? ' (default: as the model does)' : ''}`,
  ),
  new Option(
    '--drop-duplicates',
    'ignore copies of a packet within 1 ms, as recorded by mirror ports and the interface "any"',
  ),
  new Option('--continuous', 'read the files as one rotated capture, in order of time'),
]

/** Their names, for refusals. */
export const CAPTURE_OPTIONS: readonly string[] = [...namesOf(captureOptions('', false)), 'flowMemory']

function namesOf(options: readonly Option[]): string[] {
  return options.map((option) => option.attributeName())
}

/** @param use what the memory is for, and how much of it there is where nothing is said. */
export function withFlowMemory(command: Command, use: string): Command {
  return command.addOption(
    new Option('--flow-memory <bytes>', `${use}; for example 128M or 1G`)
      .argParser((text) => parseBytes(text, '--flow-memory'))
      .helpGroup('Captures:'),
  )
}

/** Of open flows, which are ended early beyond it. */
export const OPEN_FLOWS =
  'memory for open flows; when it is full, the least active flows are ended early, and the output says how many (default: 32M)'

const OUTER_VIEW: PacketView = { decapsulation: 'outer', joinFragments: false }

/** The view that options ask for. */
export function viewFrom({ decap, joinFragments }: CaptureFlags): PacketView {
  return { decapsulation: decap ?? 'outer', joinFragments: joinFragments ?? false }
}

/** The view of a model's contract. Throws UsageError where an option asks for another. */
export function viewOfModel({ decap, joinFragments }: CaptureFlags, contract: FeatureContract): PacketView {
  const model = contract.featureSet === 'rows' ? OUTER_VIEW : packetView(contract)
  if (decap !== undefined && decap !== model.decapsulation) {
    throw new UsageError(
      `--decap ${decap}: the model was trained on the ${model.decapsulation} view; leave it out, or train with --decap ${decap}`,
    )
  }
  if (joinFragments === true && !model.joinFragments) {
    throw new UsageError(
      '--join-fragments: the model was trained without; leave it out, or train with --join-fragments',
    )
  }
  return model
}

/** How packets become rows: options of `train` and `extract`; elsewhere the model's contract has them. */

export interface FlowFlags {
  readonly features?: FlowFeatureSet
  readonly iatUnit?: 's' | 'us'
  readonly size?: SizeMeasure
  readonly protocols?: readonly FlowProtocol[]
  readonly truncation?: 'split' | 'truncate'
  readonly idleTimeout?: number
  readonly activeTimeout?: number
  readonly endOnClose?: boolean
  readonly vlanKey?: boolean
}

/** @param truncation what happens at the learned duration where nothing is said. */
export function withFlowFlags(command: Command, truncation: 'split' | 'truncate'): Command {
  return withGroup(command, 'Flows and features:', flowOptions(truncation))
}

const flowOptions = (truncation: string): Option[] => [
  new Option('--features <set>', "features of a row (default: the recipe's)").choices([...FLOW_FEATURE_SETS]),
  new Option(
    '--iat-unit <unit>',
    'unit of the times in rows of iat-size, iat and stats-header (default: s)',
  ).choices(['s', 'us']),
  new Option(
    '--size <measure>',
    'packet size: frame on the wire, IP length, transport payload, or captured bytes (default: payload for flow-summary, otherwise frame)',
  ).choices(['frame', 'ip', 'payload', 'captured']),
  new Option(
    '--protocols <list>',
    `transports whose flows count, of ${FLOW_PROTOCOLS.join(',')} (default: tcp,udp)`,
  ).argParser(protocolList),
  new Option(
    '--truncation <mode>',
    `a row covers a duration that is learned from the captures; a longer flow becomes several rows (split), or one row of its beginning (truncate); not for flow-summary (default: ${truncation})`,
  ).choices(['split', 'truncate']),
  new Option(
    '--idle-timeout <seconds>',
    'end a flow when no packet comes for longer than this (default: 600)',
  ).argParser(number),
  new Option(
    '--active-timeout <seconds>',
    'cut a flow after this time; the rest is another flow (default: 600 for flow-summary, otherwise none)',
  ).argParser(number),
  new Option(
    '--end-on-close',
    'end a TCP flow 0.5 s after an RST or both FINs; a SYN after a FIN or RST starts another flow (default for flow-summary)',
  ),
  new Option('--no-end-on-close', 'do not end flows by TCP flags (default for all other feature sets)'),
  new Option('--vlan-key', 'keep packets of different VLANs in different flows'),
]

/** Their names, for refusals. */
export const FLOW_OPTIONS: readonly string[] = namesOf(flowOptions(''))

function protocolList(text: string): readonly FlowProtocol[] {
  const names = text.split(',').map((name) => name.trim())
  const unknown = names.find((name) => !(FLOW_PROTOCOLS as readonly string[]).includes(name))
  if (unknown !== undefined) {
    throw new InvalidArgumentError(`expected some of ${FLOW_PROTOCOLS.join(',')}, found "${unknown}".`)
  }
  return FLOW_PROTOCOLS.filter((name) => names.includes(name))
}

export const INPUT_HELP =
  'INPUT is a capture (pcap or pcapng, plain or .gz, or - for standard input) or feature rows (.npy, .csv).'

export function inputs(): Argument {
  return new Argument('<input...>', 'captures or feature rows; - is a capture on standard input')
}

export function withFormat(command: Command, formats: string[]): Command {
  return command.addOption(
    new Option('--format <name>', 'output format').choices(formats).default(formats[0]),
  )
}

/**
 * --help prints the options of these names, which most need, and says where the others are; --help all prints every one.
 */
export function withShortHelp(command: Command, essential: readonly string[]): Command {
  let isWhole = false
  const isShown = (option: Option): boolean => isWhole || [...essential, 'help'].includes(option.name())
  const allOptions = (of: Command): Option[] => new Help().visibleOptions(of)
  return command
    .helpOption(false)
    .option('-h, --help [all]', 'print this help and end; --help all lists every option')
    .on('option:help', (given: string | null) => {
      isWhole = given === 'all'
      command.outputHelp()
      throw new CommanderError(0, 'commander.helpDisplayed', '(outputHelp)')
    })
    .configureHelp({ visibleOptions: (of) => allOptions(of).filter(isShown) })
    .addHelpText('after', (context) => {
      const hidden = allOptions(command).filter((option) => !isShown(option))
      const groups = new Set(hidden.flatMap(({ helpGroupHeading }) => helpGroupHeading?.slice(0, -1) ?? []))
      // the manual page lists every option
      return isWhole || 'isWhole' in context
        ? ''
        : `\n--help all lists ${hidden.length} more options: ${[...groups].join(', ').toLowerCase()}.`
    })
}

/** The first of `names` that was given, as its flag. */
export function givenFlag(options: object, names: readonly string[]): string | undefined {
  const given = names.find((name) => (options as Record<string, unknown>)[name] !== undefined)
  return given === undefined ? undefined : flagOf(given)
}

/** The flag of an option: bandwidthQuantile → --bandwidth-quantile. */
export function flagOf(option: string): string {
  return `--${option.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
}

/**
 * The detectors' own options as flags of `train`. A flag is its option's name in kebab-case; what it means, its default
 * and the detectors that take it stand in @oddflow/detectors.
 */

const PARSERS: Readonly<Record<string, (text: string) => unknown>> = {
  whole,
  number,
  list: list((name) => name),
}

export function withDetectorFlags(command: Command): Command {
  const names = new Option(
    '--detector <name>',
    `one of ${DETECTOR_NAMES.join(', ')} (default: ensemble for flow-summary, oc-kjl-qs for other feature sets; for rows of a file, whichever of ${PLAIN_ROWS_DETECTORS.map(({ detector }) => detector).join(', ')} suits them)`,
  )
  withGroup(command, 'Detector:', [names])
  for (const name of OPTION_NAMES) withGroup(command, `${optionNamed(name).group}:`, optionsOf(name))
  return command
}

/** What the documents say of each flag; `detectors` is empty where all take it. */
export function detectorFlagRows(): { flag: string; detectors: string; byDefault: string; help: string }[] {
  return OPTION_NAMES.map((name) => {
    const { value, help, choices } = optionNamed(name)
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
  const { kind, value, help, off, choices } = optionNamed(name)
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
  const parse = PARSERS[kind]
  if (parse !== undefined) option.argParser(parse)
  return choices === undefined ? [option] : [option.choices([...choices])]
}

function defaultOf(name: OptionName): string {
  const { shownDefault, byDefault } = optionNamed(name)
  return shownDefault ?? String(byDefault)
}

/** "oc-kjl, gmm"; empty where all detectors take it. */
export function takersOf(option: OptionName): string {
  const takers = DETECTOR_NAMES.filter((name) => DETECTORS[name].options.includes(option))
  return takers.length === DETECTOR_NAMES.length ? '' : takers.join(', ')
}

function join(takers: string, rest: string): string {
  return [takers, rest].filter((part) => part !== '').join('; ')
}

/**
 * Flags of `train` that choose parameters on labelled inputs. The two lists of inputs switch the search on; without
 * them the other flags are refused.
 */

export interface SelectionFlags {
  readonly selectNormal?: readonly string[]
  readonly selectNovel?: readonly string[]
  readonly selectNovelFilter?: string
  readonly jobs?: number
  readonly selectionReport?: string
}

const MAXIMUM_JOBS = 256

export interface SelectionRequest {
  readonly grid: ParameterGrid
  readonly candidates: readonly Candidate[]
  /** Worker threads; as many as there are processors where it is undefined. */
  readonly jobs: number | undefined
  readonly report: string | undefined
}

export function withSelectionFlags(command: Command): Command {
  const flags = [
    new Option(
      '--select-normal <input...>',
      'normal inputs, not used for training. train chooses the parameters that best separate them (AUC) from the inputs of --select-novel',
    ),
    new Option('--select-novel <input...>', 'novel inputs for --select-normal'),
    new Option('--select-novel-filter <filter>', 'filter of the --select-novel inputs, instead of --filter'),
    new Option('--jobs <count>', 'worker threads (default: one for each processor)').argParser(whole),
    new Option('--selection-report <file>', 'write all candidates and their AUC as JSON'),
  ]
  return withGroup(command, 'Choosing parameters:', flags)
}

/** null where nothing is to be chosen. Throws UsageError naming the flag that does not fit. */
export function selectionFrom(flags: SelectionFlags, detector: DetectorOptions): SelectionRequest | null {
  const { selectNormal: normal, selectNovel: novel } = flags
  if (normal === undefined && novel === undefined) {
    const flag = givenFlag(flags, ['selectNovelFilter', 'jobs', 'selectionReport'])
    if (flag !== undefined) throw new UsageError(`${flag}: needs --select-normal and --select-novel`)
    return null
  }
  if (normal === undefined) throw new UsageError('--select-novel: needs --select-normal too')
  if (novel === undefined) throw new UsageError('--select-normal: needs --select-novel too')
  const { jobs, selectionReport: report } = flags
  if (jobs !== undefined && !(jobs >= 1 && jobs <= MAXIMUM_JOBS)) {
    throw new UsageError(`--jobs ${jobs}: expected a whole number from 1 to ${MAXIMUM_JOBS}`)
  }
  const grid = applicableGrid(detector)
  if (Object.keys(grid).length === 0) {
    throw new UsageError(
      `--select-normal: ${detector.detector} has no bandwidth quantile and no k left to choose; leave out --bandwidth-quantile or --k, or do not search`,
    )
  }
  return {
    jobs,
    report,
    grid: orderedGrid(grid),
    candidates: gridCandidates(detector, grid),
  }
}

/**
 * Presets of `train` and `extract` that single options override (docs/recipes.md): `default` is what measurement
 * favours (docs/results/default-recipe.md), `paper` the text of Yang, Kpotufe and Feamster, `authors` their code.
 */

export interface Recipe {
  readonly features: FlowFeatureSet
  /** For rows of `features`; `oc-kjl-qs` for those of other feature sets. */
  readonly detector: DetectorName
  readonly bandwidthQuantile: number
  readonly quantileCompat: QuantileCompat
  readonly centre: boolean
  readonly supportGuard: boolean
  readonly scaler: ScalerName
  readonly iatUnit: IatUnit
  readonly sizeMeasure: SizeMeasure
  readonly truncation: TruncationMode
  readonly flowKey: FlowKeyRule
}

const DEFAULT: Recipe = {
  features: 'flow-summary',
  detector: 'ensemble',
  bandwidthQuantile: 0.3,
  quantileCompat: 'pairs',
  centre: false,
  supportGuard: true,
  scaler: 'none',
  iatUnit: 'seconds',
  sizeMeasure: 'frame',
  truncation: 'split',
  flowKey: 'bidirectional-5-tuple',
}
const PAPER: Recipe = {
  ...DEFAULT,
  features: 'iat-size',
  detector: 'oc-kjl-qs',
  bandwidthQuantile: 0.25,
  supportGuard: false,
  iatUnit: 'microseconds',
  truncation: 'truncate',
}
const AUTHORS: Recipe = {
  ...PAPER,
  bandwidthQuantile: 0.3,
  quantileCompat: 'authors',
  centre: true,
  iatUnit: 'seconds',
  sizeMeasure: 'captured',
  truncation: 'idle-gap',
  flowKey: 'directional-5-tuple',
}
export const RECIPES = { default: DEFAULT, paper: PAPER, authors: AUTHORS } as const satisfies Record<
  string,
  Recipe
>

/** For rows of a feature set; undefined: rows of a file, where nothing is chosen by measurement. */
export function recipeDetector(recipe: Recipe, features: FlowFeatureSet | undefined): DetectorName {
  return features === recipe.features ? recipe.detector : 'oc-kjl-qs'
}

export function recipeNamed(name: string): Recipe {
  const recipe = Object.entries(RECIPES).find(([each]) => each === name)?.[1]
  if (recipe === undefined) {
    throw new UsageError(`--recipe ${name}: expected one of ${Object.keys(RECIPES).join(', ')}`)
  }
  return recipe
}
