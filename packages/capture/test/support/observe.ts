/**
 * What a capture gives, in the words of the outside evidence: nanosecond times as integers, flows by IP
 * version and protocol, packets of no TCP or UDP flow by kind.
 */
import { formatAddress } from '../../src/addresses.js'
import type { CaptureEnd } from '../../src/capture-notes.js'
import { CaptureFileError } from '../../src/node/frame-source.js'
import { type OpenCaptureOptions, readCapture } from '../../src/node/open-capture.js'
import { createPacketBatch, type FrameBatch, PACKET_OK, PACKET_STATUS_NAMES } from '../../src/packet-batch.js'
import { createPacketDecoder, type PacketDecoderOptions } from '../../src/packet-decoder.js'

export interface Observation {
  end: CaptureEnd | null
  /** Why nothing could be read. */
  refusal: CaptureFileError | null
  packets: number
  wireBytes: number
  firstNanos: bigint | null
  lastNanos: bigint | null
  /** Keys such as ipv4_tcp. */
  flows: Record<string, number>
  packetsInFlows: number
  unassigned: Record<string, number>
  linkTypes: Record<string, number>
  cpuMillis: number
}

const KIND: Readonly<Record<string, string>> = {
  'ip-later-fragment': 'later-fragment',
  'transport-header-truncated': 'short-l4',
  'transport-header-invalid': 'short-l4',
  'ip-encrypted-or-no-transport': 'ip-other',
}

export async function observe(
  file: string,
  options: OpenCaptureOptions & PacketDecoderOptions = {},
  onBatch: () => void = () => undefined,
): Promise<Observation> {
  const seen: Observation = {
    end: null,
    refusal: null,
    packets: 0,
    wireBytes: 0,
    firstNanos: null,
    lastNanos: null,
    flows: {},
    packetsInFlows: 0,
    unassigned: {},
    linkTypes: {},
    cpuMillis: 0,
  }
  const keys = new Set<string>()
  const packets = createPacketBatch(2048)
  const decoder = createPacketDecoder(options)
  const bump = (counts: Record<string, number>, key: string): void => {
    counts[key] = (counts[key] ?? 0) + 1
  }
  const add = (frames: FrameBatch): void => {
    onBatch()
    decoder.decode(frames, packets)
    for (let i = 0; i < packets.count; i++) {
      seen.packets++
      seen.wireBytes += packets.frameBytes[i]!
      bump(seen.linkTypes, String(frames.linkType[i]))
      const micros = packets.timestampMicros[i]!
      if (!Number.isNaN(micros)) {
        seen.lastNanos = BigInt(micros) * 1000n + BigInt(frames.timestampSubNanos[i]!)
        seen.firstNanos ??= seen.lastNanos
      }
      const protocol = packets.protocol[i]!
      const version = packets.ipVersion[i]!
      const status = packets.status[i]!
      if (status !== PACKET_OK) {
        bump(seen.unassigned, KIND[PACKET_STATUS_NAMES[status]!] ?? 'non-ip')
      } else if (protocol !== 6 && protocol !== 17) {
        bump(seen.unassigned, protocol === 1 || protocol === 58 ? 'icmp' : 'ip-other')
      } else {
        seen.packetsInFlows++
        const name = `ipv${version}_${protocol === 6 ? 'tcp' : 'udp'}`
        const ends = [
          `${formatAddress(packets.sourceAddress, 4 * i, version)} ${packets.sourcePort[i]}`,
          `${formatAddress(packets.destinationAddress, 4 * i, version)} ${packets.destinationPort[i]}`,
        ].sort()
        const key = `${name} ${ends.join(' ')}`
        if (!keys.has(key)) bump(seen.flows, name)
        keys.add(key)
      }
    }
  }
  const before = process.cpuUsage()
  try {
    seen.end = await readCapture(file, add, options)
  } catch (error) {
    if (!(error instanceof CaptureFileError)) throw error
    seen.refusal = error
  }
  const spent = process.cpuUsage(before)
  seen.cpuMillis = (spent.user + spent.system) / 1000
  return seen
}

/** Whether two counts by name agree, a missing name being 0. */
export function sameCounts(a: Record<string, number>, b: Record<string, number>): boolean {
  const names = new Set([...Object.keys(a), ...Object.keys(b)])
  return [...names].every((name) => (a[name] ?? 0) === (b[name] ?? 0))
}
