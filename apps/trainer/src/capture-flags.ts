/**
 * Options that say how captures are read, alike in every command that reads them: the filter, the reader, the view
 * (outer or inner headers, fragments joined or not), copies, and whether several files are one rotated capture.
 *
 * Under a model the view is the model's: it is part of what a row means. Asking for the same aloud is no fault,
 * asking for another is.
 */

import type { CaptureReaderName } from '@oddflow/capture/node'
import { type Decapsulation, type FeatureContract, type PacketView, packetView } from '@oddflow/core'
import { parseBytes, UsageError } from '@oddflow/program'
import { type Command, Option } from 'commander'

export interface CaptureFlags {
  readonly filter?: string
  readonly reader?: CaptureReaderName
  readonly decap?: Decapsulation
  readonly joinFragments?: boolean
  readonly dropDuplicates?: boolean
  readonly continuous?: boolean
  /** Bytes. */
  readonly flowMemory?: number
}

/** Each with its flag, for refusals by name. */
export const CAPTURE_FLAGS: Readonly<Record<keyof CaptureFlags, string>> = {
  filter: '--filter',
  reader: '--reader',
  decap: '--decap',
  joinFragments: '--join-fragments',
  dropDuplicates: '--drop-duplicates',
  continuous: '--continuous',
  flowMemory: '--flow-memory',
}

/** @param underModel whether the view is a model's, and the option only says it aloud. */
export function withCaptureFlags(command: Command, underModel = false): Command {
  const usual = underModel ? "the model's" : 'outer'
  const options = [
    new Option(
      '--filter <words>',
      "keep packets that match, in tcpdump's words: [src|dst] host, net, port, portrange, ether host, tcp, udp, icmp, ip, ip6, vlan, and, or, not, ( )",
    ),
    new Option(
      '--decap <view>',
      `headers of a packet in a tunnel: the tunnel's (outer) or those inside it (inner) (default: ${usual})`,
    ).choices(['outer', 'inner']),
    new Option(
      '--join-fragments',
      `put later IP fragments into the flow of the first${underModel ? ' (default: as the model does)' : ''}`,
    ),
    new Option(
      '--drop-duplicates',
      'leave out copies of a packet within 1 ms, as mirror ports and the interface any record them',
    ),
    new Option('--continuous', 'read the files as one rotated capture, in order of time'),
    new Option('--reader <name>', 'decoder of classic pcap files (default: oddflow)').choices([
      'oddflow',
      'pcap-parser',
    ]),
  ]
  for (const option of options) command.addOption(option.helpGroup('Captures:'))
  return command
}

/** @param use what the memory is for, and how much of it there is where nothing is said. */
export function withFlowMemory(command: Command, use: string): Command {
  return command.addOption(
    new Option('--flow-memory <bytes>', use)
      .argParser((text) => parseBytes(text, '--flow-memory'))
      .helpGroup('Captures:'),
  )
}

/** Of open flows, which are ended early beyond it. */
export const OPEN_FLOWS =
  'memory for open flows; when it is full the least active flows end early, and are counted (default: 32M)'

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
