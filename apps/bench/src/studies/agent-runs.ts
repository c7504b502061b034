/** What the studies of the agent share: recordings that are moved and made, and runs of the agent's program on them. */
import { spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { createCaptureReader, encodePcap, type PcapFrame } from '@oddflow/capture'
import { DataError } from '@oddflow/core'
import type { Command } from 'commander'
import { inFile, packagePath } from '../files.js'
import { note } from '../output.js'
import { daysOf } from './week.js'

export const SECOND_MICROS = 1_000_000
export const HOUR_MICROS = 3600 * SECOND_MICROS
export const DAY_MICROS = 24 * HOUR_MICROS

// ---- the program

const AGENT = packagePath('../agent/dist/main.js')

export interface AgentOptions {
  readonly agent?: string
}

export function withAgent(command: Command): Command {
  return command.option(
    '--agent <file>',
    "main.js of oddflow-agent (default: the workspace's, once it is built)",
  )
}

/** Throws DataError where there is none. */
export function agentProgram({ agent = AGENT }: AgentOptions): string {
  if (!existsSync(agent)) {
    throw new DataError(
      `${agent}: expected the agent's program; build the workspace, or name it with --agent`,
    )
  }
  return agent
}

export const runArguments = (config: string, input: string): string[] => [
  ...['run', '--allow-root', '-c', config],
  ...['--read', input, '--once'],
]

/** A folder with a configuration of the agent, whose state and alerts lie there too. */
export function configure(folder: string, name: string, config: object): string {
  const at = join(folder, name.replaceAll(' ', '-'))
  mkdirSync(at)
  writeFileSync(join(at, 'agent.yaml'), JSON.stringify({ state: 'state', eve: 'eve.json', ...config }))
  return at
}

/** Replays a recording in a configured folder. Returns the events that the agent adds, and the counters that it prints. */
export function replay(
  agent: string,
  at: string,
  packets: readonly Packet[],
): { readonly events: AgentEvent[]; readonly counters: unknown } {
  const known = eventsIn(at).length
  const before = `${at}-before`
  cpSync(at, before, { recursive: true })
  const input = join(at, 'in.pcap')
  writeCapture(input, packets)
  const args = [agent, ...runArguments(join(at, 'agent.yaml'), input)]
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, args, {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  })
  if (signal === 'SIGABRT') {
    // Node 20.20 aborts now and then where a thread of a training ends while memory is collected
    note('a replay ended with SIGABRT; trying again')
    rmSync(at, { recursive: true })
    cpSync(before, at, { recursive: true })
  }
  rmSync(before, { recursive: true })
  if (signal === 'SIGABRT') return replay(agent, at, packets)
  if (status !== 0) throw new DataError(`${agent}: ended with ${signal ?? status}: ${stderr}`)
  return { events: eventsIn(at).slice(known), counters: JSON.parse(stdout) as unknown }
}

export interface AgentEvent {
  readonly timestamp: string
  readonly event_type: string
  readonly src_ip?: string
  readonly dest_ip?: string
  readonly oddflow: {
    readonly rule: string
    readonly summary: string
    /** None of what is said about the agent itself. */
    readonly device?: { readonly mac: string }
    readonly incident?: {
      readonly id: string
      readonly kind: string
      readonly level: string
      /** "opened", "worse", "over", …; none of an alert that belongs to an incident. */
      readonly change?: string
      readonly evidence: number
      readonly flows: number
    }
  }
}

/** The whole lines of an EVE file that may be growing. */
export function eventsIn(folder: string): AgentEvent[] {
  const path = join(folder, 'eve.json')
  const text = existsSync(path) ? readFileSync(path, 'utf8') : ''
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as AgentEvent)
}

export async function inTemporaryFolder<T>(work: (folder: string) => Promise<T> | T): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'oddflow-bench-agent-'))
  try {
    return await work(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

export function countByRule(events: readonly AgentEvent[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { oddflow } of events) counts[oddflow.rule] = (counts[oddflow.rule] ?? 0) + 1
  return counts
}

// ---- recordings

export interface Packet {
  readonly micros: number
  readonly frame: Buffer
  /** The frame's length where it is left out. */
  readonly wireBytes?: number
}

/** All packets of a capture, plain or .gz. Throws DataError where it is damaged. */
export function readPackets(path: string): Packet[] {
  return inFile(path, () => {
    const file = readFileSync(path)
    const reader = createCaptureReader()
    reader.push(path.endsWith('.gz') ? gunzipSync(file) : file)
    const packets: Packet[] = []
    const take = (): void => {
      for (let batch = reader.read(); batch !== null; batch = reader.read()) {
        for (let i = 0; i < batch.count; i++) {
          const start = batch.offset[i]!
          packets.push({
            micros: batch.timestampMicros[i]!,
            frame: Buffer.from(batch.data.subarray(start, start + batch.capturedBytes[i]!)),
            wireBytes: batch.wireBytes[i]!,
          })
        }
      }
    }
    take()
    const { error } = reader.end()
    take()
    if (error !== null) throw new DataError(String(error))
    return packets
  })
}

/** The recordings of each device of data/week, in the order of time. */
export function readWeeks(week: string): Map<string, Packet[]> {
  const devices = inFile(week, () => readdirSync(week)).sort()
  return new Map(
    devices.map((device) => {
      const folder = join(week, device)
      return [device, inOrder(daysOf(folder).flatMap((day) => readPackets(join(folder, day))))]
    }),
  )
}

export const frameOf = ({ micros, frame, wireBytes = frame.length }: Packet): PcapFrame => ({
  timestampMicros: micros,
  bytes: frame,
  wireBytes,
})

export const captureOf = (packets: readonly Packet[]): Uint8Array => encodePcap(packets.map(frameOf))

export const inOrder = (packets: readonly Packet[]): Packet[] =>
  [...packets].sort((a, b) => a.micros - b.micros)

export const moved = (packets: readonly Packet[], byMicros: number): Packet[] =>
  packets.map((packet) => ({ ...packet, micros: packet.micros + byMicros }))

function writeCapture(path: string, packets: readonly Packet[]): void {
  writeFileSync(path, captureOf(inOrder(packets)))
}

/** Where the IPv4 header of an Ethernet frame is, with one VLAN tag or none; null of other frames. */
export function ipv4At(frame: Buffer): number | null {
  const ip = frame.length >= 20 && frame.readUInt16BE(12) === 0x8100 ? 18 : 14
  return frame.length >= ip + 24 && frame.readUInt16BE(ip - 2) === 0x0800 ? ip : null
}

export const addressAt = (frame: Buffer, at: number): string => frame.subarray(at, at + 4).join('.')

export const isLocal = (address: string): boolean =>
  /^(10\.|192\.168\.|169\.254\.|172\.(1[6-9]|2\d|3[01])\.)/.test(address)

/** Writes the checksum of an IPv4 header of 20 bytes that follows an Ethernet header. */
export function withChecksum(frame: Buffer): Buffer {
  frame.writeUInt16BE(0, 24)
  let sum = 0
  for (let at = 14; at < 34; at += 2) sum += frame.readUInt16BE(at)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  frame.writeUInt16BE(~sum & 0xffff, 24)
  return frame
}

// ---- made traffic

export interface End {
  readonly mac: Buffer
  readonly address: string
  readonly port: number
}

const bytesOf = (address: string): Buffer => Buffer.from(address.split('.').map(Number))

function tcpPacket(micros: number, from: End, to: End, flags: number, payloadBytes: number): Packet {
  const frame = Buffer.alloc(14 + 40 + payloadBytes)
  to.mac.copy(frame, 0)
  from.mac.copy(frame, 6)
  frame.writeUInt16BE(0x0800, 12)
  frame[14] = 0x45
  frame.writeUInt16BE(40 + payloadBytes, 16)
  frame.writeUInt16BE(0x4000, 20)
  frame[22] = 64
  frame[23] = 6
  bytesOf(from.address).copy(frame, 26)
  bytesOf(to.address).copy(frame, 30)
  frame.writeUInt16BE(from.port, 34)
  frame.writeUInt16BE(to.port, 36)
  frame[46] = 0x50
  frame[47] = flags
  frame.writeUInt16BE(0xffff, 48)
  return { micros: Math.round(micros), frame: withChecksum(frame) }
}

/** A connection that carries `turns`: bytes of the client (positive) and of the server (negative), 20 ms apart. */
export function connection(micros: number, client: End, server: End, turns: readonly number[]): Packet[] {
  const packets: Packet[] = []
  let at = micros
  const say = (isClient: boolean, flags: number, payload = 0): void => {
    packets.push(tcpPacket(at, isClient ? client : server, isClient ? server : client, flags, payload))
    at += payload > 0 ? 1000 : 20_000
  }
  say(true, 2)
  say(false, 18)
  say(true, 16)
  for (const turn of turns) {
    for (let left = Math.abs(turn); left > 0; left -= 1400) say(turn > 0, 24, Math.min(1400, left))
    at += 20_000
    say(turn < 0, 16)
  }
  say(true, 17)
  say(false, 17)
  say(true, 16)
  return packets
}

/** A port that is closed. */
export const refused = (micros: number, client: End, server: End): Packet[] => [
  tcpPacket(micros, client, server, 2, 0),
  tcpPacket(micros + 2000, server, client, 20, 0),
]

/** `times` times within `spanMicros`, evenly. */
export const spread = (
  times: number,
  fromMicros: number,
  spanMicros: number,
  make: (micros: number, i: number) => Packet[],
): Packet[] =>
  Array.from({ length: times }, (_, i) => make(fromMicros + ((i + 0.5) * spanMicros) / times, i)).flat()
