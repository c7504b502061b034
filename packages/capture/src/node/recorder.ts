/**
 * The command line of tcpdump or dumpcap, and its messages. Only this program needs the rights to record. Arguments
 * never go through a shell, and the filter comes after `--`. tcpdump's `-U --immediate-mode` delivers every packet at
 * once; dumpcap has no such option and no direction.
 */
import { ArgumentError } from '@oddflow/core'
import { MAXIMUM_CAPTURED_BYTES } from '../capture-notes.js'

/**
 * Messages on standard error. tcpdump 4.x: `listening on eth0, …` when recording starts; on SIGUSR1 one line `tcpdump: 5 packets
 * captured, 5 packets received by filter, 0 packets dropped by kernel`, at the end a line each, with `dropped by interface`
 * if known. dumpcap 3.x and 4.x: `Capturing on …` before it opens the interface, `File: -` when recording starts, at the end
 * `Packets captured: 5` and `Packets received/dropped on interface 'eth0': 5/0 (pcap:0/dumpcap:0/flushed:0/ps_ifdrop:0)
 * (100.0%)`, of which the first is what was written. Other text is kept as the program's last words.
 */

export interface RecorderCounts {
  /** Packets that the program delivered; null if not stated. */
  readonly captured: number | null
  /** Packets that the kernel's filter let through (on the loopback interface some systems count each twice). */
  readonly received: number | null
  /** Packets that the kernel dropped because they were not fetched in time. */
  readonly droppedByKernel: number | null
  /** Packets that the interface dropped. */
  readonly droppedByInterface: number | null
}

export const NO_COUNTS: RecorderCounts = {
  captured: null,
  received: null,
  droppedByKernel: null,
  droppedByInterface: null,
}

/** Most characters of a message that are kept. */
const KEPT_CHARACTERS = 2048

const TCPDUMP_COUNT = /(\d+) packets? (captured|received by filter|dropped by kernel|dropped by interface)/g
const TCPDUMP_COUNTERS: Readonly<Record<string, keyof RecorderCounts>> = {
  captured: 'captured',
  'received by filter': 'received',
  'dropped by kernel': 'droppedByKernel',
  'dropped by interface': 'droppedByInterface',
}
const DUMPCAP_CAPTURED = /^Packets captured: (\d+)/
const DUMPCAP_RECEIVED =
  /^Packets received\/dropped on interface .*: (\d+)\/(\d+) \(pcap:(\d+)\/dumpcap:(\d+)\/flushed:\d+\/ps_ifdrop:(\d+)\)/

export class RecorderMessages {
  counts = NO_COUNTS
  /** How often counts were stated. */
  countsTold = 0
  /** Recording has started. */
  hasBegun = false
  /** The last messages that are neither counts nor the announcement, in one line; may be empty. */
  lastWords = ''
  #rest = ''

  /** Takes the next piece of standard error. */
  add(text: string): void {
    const lines = (this.#rest + text).split(/[\r\n]+/)
    this.#rest = lines.pop()!.slice(-KEPT_CHARACTERS)
    for (const line of lines) this.#takeLine(line.trim())
  }

  /** Standard error has ended, perhaps without a line end. */
  end(): void {
    this.#takeLine(this.#rest.trim())
    this.#rest = ''
  }

  #takeLine(line: string): void {
    if (line === '' || line.startsWith('Capturing on ')) return
    if (line === 'File: -' || line.includes(': listening on ')) this.hasBegun = true
    else if (!this.#takeTcpdumpCounts(line) && !this.#takeDumpcapCounts(line)) {
      this.lastWords = `${this.lastWords} ${line}`.trim().slice(0, KEPT_CHARACTERS)
    }
  }

  #takeTcpdumpCounts(line: string): boolean {
    const found = [...line.matchAll(TCPDUMP_COUNT)]
    for (const [, digits, what] of found) {
      this.counts = { ...this.counts, [TCPDUMP_COUNTERS[what!]!]: Number(digits) }
    }
    if (found.length > 0 && line.includes('dropped by kernel')) this.countsTold++
    return found.length > 0
  }

  #takeDumpcapCounts(line: string): boolean {
    const captured = DUMPCAP_CAPTURED.exec(line)
    if (captured !== null) {
      this.counts = { ...this.counts, captured: Number(captured[1]) }
      return true
    }
    const received = DUMPCAP_RECEIVED.exec(line)
    if (received === null) return false
    const [, arrived, dropped, byPcap, byDumpcap, byInterface] = received.map(Number) as number[]
    this.counts = {
      ...this.counts,
      // dumpcap's "received" is what it wrote; the filter had also let through what it lost
      received: arrived! + dropped!,
      droppedByKernel: byPcap! + byDumpcap!,
      droppedByInterface: byInterface!,
    }
    this.countsTold++
    return true
  }
}

const RECORDERS = ['tcpdump', 'dumpcap'] as const
/** The programs that can record from an interface. */
export type RecorderName = (typeof RECORDERS)[number]

const DIRECTIONS = ['in', 'out', 'inout'] as const
/** Which packets a recorder takes, as seen from the interface. */
export type CaptureDirection = (typeof DIRECTIONS)[number]

/** Default kernel buffer. */
const DEFAULT_KERNEL_BUFFER_KIBIBYTES = 32_768

/** Frames of the default length that fit into the default buffer (tcpdump on Linux). */
export const DEFAULT_KERNEL_BUFFER_FRAMES = 15_000

/**
 * Holds ordinary Ethernet frames whole, and every header of larger ones. Not more, because in immediate mode the kernel
 * reserves the full length for each frame: with 262,144 bytes (65,536 on most interfaces) the buffer has 512 places, which
 * is 25 ms of 20,000 packets a second.
 */
const DEFAULT_SNAP_LENGTH_BYTES = 2048

/** What to record, and how. */
export interface RecorderOptions {
  /** As the system names it, for instance eth0; `any` is all of them on Linux. */
  readonly interface: string
  /** In tcpdump's language; the kernel filters. */
  readonly filter?: string
  /** Bytes kept of a frame, 64 … 262,144. Default 2,048. */
  readonly snapLengthBytes?: number
  /** Seen from this machine. Default `inout`. Only tcpdump. */
  readonly direction?: CaptureDirection
  /** 64 … 2,097,152; packets wait there, and are dropped and counted when it is full. */
  readonly kernelBufferKibibytes?: number
  /** Default `tcpdump`. */
  readonly recorder?: RecorderName
  /** Path of the program. Default its name. */
  readonly program?: string
}

export interface RecorderCommand {
  readonly recorder: RecorderName
  readonly program: string
  readonly args: readonly string[]
}

/** Throws ArgumentError. */
export function recorderCommand(options: RecorderOptions): RecorderCommand {
  const recorder = options.recorder ?? 'tcpdump'
  checkOneOf('recorder', RECORDERS, recorder)
  checkText('interface', options.interface, 256)
  if (options.interface === '-') {
    throw new ArgumentError('interface: expected the name of an interface, found -', 'interface')
  }
  if (options.filter !== undefined) checkText('filter', options.filter, 65_536)
  const snapLength = options.snapLengthBytes ?? DEFAULT_SNAP_LENGTH_BYTES
  checkWhole('snapLengthBytes', snapLength, 64, MAXIMUM_CAPTURED_BYTES)
  const buffer = options.kernelBufferKibibytes ?? DEFAULT_KERNEL_BUFFER_KIBIBYTES
  checkWhole('kernelBufferKibibytes', buffer, 64, 2_097_152)
  const direction = options.direction ?? 'inout'
  checkOneOf('direction', DIRECTIONS, direction)
  const program = options.program ?? recorder
  checkText('program', program, 4096)
  const filter = options.filter?.trim() ?? ''
  if (recorder === 'dumpcap') {
    if (direction !== 'inout') {
      throw new ArgumentError(
        `direction: dumpcap records both directions; record with tcpdump for ${direction} alone`,
        'direction',
      )
    }
    const megabytes = String(Math.ceil(buffer / 1024))
    const args = ['-q', '-P', '-i', options.interface, '-s', String(snapLength), '-B', megabytes, '-w', '-']
    return { recorder, program, args: filter === '' ? args : [...args, '-f', filter] }
  }
  const args = ['-i', options.interface, '-Q', direction, '-U', '--immediate-mode', '-n']
  args.push('-s', String(snapLength), '-B', String(buffer), '-w', '-')
  return { recorder, program, args: filter === '' ? args : [...args, '--', filter] }
}

function checkOneOf(field: string, allowed: readonly string[], found: string): void {
  if (allowed.includes(found)) return
  throw new ArgumentError(`${field}: expected one of ${allowed.join(', ')}, found ${found}`, field)
}

function checkWhole(field: string, value: number, least: number, most: number): void {
  if (Number.isInteger(value) && value >= least && value <= most) return
  throw new ArgumentError(`${field}: expected a whole number from ${least} to ${most}, found ${value}`, field)
}

function checkText(field: string, text: string, most: number): void {
  if (typeof text === 'string' && text !== '' && text.length <= most && !text.includes('\0')) return
  throw new ArgumentError(
    `${field}: expected 1 to ${most} characters and no NUL, found ${JSON.stringify(String(text).slice(0, 40))}`,
    field,
  )
}
