import {
  type Decapsulation,
  type FeatureContract,
  FLOW_FEATURE_SETS,
  FLOW_PROTOCOLS,
  type FlowFeatureSet,
  type FlowProtocol,
  type PacketView,
  packetView,
  type SizeMeasure,
} from '@oddflow/core'
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
export function list<T>(parse: (text: string) => T): (text: string) => T[] {
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

/** For refusals by name. */
export const CAPTURE_OPTIONS = [
  'filter',
  'decap',
  'joinFragments',
  'dropDuplicates',
  'continuous',
  'flowMemory',
] as const satisfies readonly (keyof CaptureFlags)[]

/** @param underModel whether the view is a model's, and the option only says it aloud. */
export function withCaptureFlags(command: Command, underModel = false): Command {
  const usual = underModel ? "the model's" : 'outer'
  const options = [
    new Option(
      '--filter <words>',
      "keep packets that match, in tcpdump's syntax: [src|dst] host, net, port, portrange, ether host, tcp, udp, icmp, ip, ip6, vlan, and, or, not, ( )",
    ),
    new Option(
      '--decap <view>',
      `which headers of a packet in a tunnel to use: the tunnel's (outer) or those inside it (inner) (default: ${usual})`,
    ).choices(['outer', 'inner']),
    new Option(
      '--join-fragments',
      `put later IP fragments into the flow of the first${underModel ? ' (default: as the model does)' : ''}`,
    ),
    new Option(
      '--drop-duplicates',
      'ignore copies of a packet within 1 ms, as recorded by mirror ports and the interface "any"',
    ),
    new Option('--continuous', 'read the files as one rotated capture, in order of time'),
  ]
  for (const option of options) command.addOption(option.helpGroup('Captures:'))
  return command
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
  'memory for open flows; when it is full, the least active flows end early and are counted (default: 32M)'

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

/** For refusals by name. */
export const FLOW_OPTIONS = [
  'features',
  'iatUnit',
  'size',
  'protocols',
  'truncation',
  'idleTimeout',
  'activeTimeout',
  'endOnClose',
  'vlanKey',
] as const satisfies readonly (keyof FlowFlags)[]

/** @param truncation what happens at the learned duration where nothing is said. */
export function withFlowFlags(command: Command, truncation: 'split' | 'truncate'): Command {
  const options = [
    new Option('--features <set>', "features of a row (default: the recipe's)").choices([
      ...FLOW_FEATURE_SETS,
    ]),
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
      `what becomes of a flow longer than the duration learned from the captures: split into several rows, or truncated to one; not for flow-summary (default: ${truncation})`,
    ).choices(['split', 'truncate']),
    new Option('--idle-timeout <seconds>', 'end a flow after a longer gap (default: 600)').argParser(number),
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
  for (const option of options) command.addOption(option.helpGroup('Flows and features:'))
  return command
}

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
