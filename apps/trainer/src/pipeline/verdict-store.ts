/**
 * The verdicts of one capture, held until its end to be given in the order of first packets. Records are 96 bytes,
 * sorted in blocks; four blocks stay in memory, others go into a scratch file, and all are merged (20 MB at most).
 * Rows of novel verdicts to explain are kept in the same way.
 */

import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { formatAddress } from '@oddflow/capture'
import { DataError } from '@oddflow/core'
import { type FlowRecord, protocolName } from '@oddflow/flows'
import {
  type FlowExplainer,
  type FlowExplanation,
  fileError,
  isResponderDevice,
  macText,
  openScratchFolder,
  PRIVATE_NETWORKS,
  parseNetwork,
  reportedBytes,
  type Verdict,
  type VerdictRule,
} from '@oddflow/program'

/** The flow of a verdict. */

export interface FlowFacts {
  readonly capture: string
  /** "tcp", "udp", "icmp", "icmpv6", "sctp". With ICMP the ports are type, and answering type or code. */
  readonly protocol: string
  readonly source: string
  readonly sourcePort: number
  readonly destination: string
  readonly destinationPort: number
  readonly startMicros: number
  readonly durationMicros: number
  readonly packets: number
  readonly bytes: number
  /** 0 for a flow's first record; a long flow has more. */
  readonly piece: number
}

/** A verdict, and what it is of. */
export interface InputVerdict extends Verdict {
  /** score − threshold; novel iff ≤ 0. */
  readonly decision: number | null
  /** The input that it came from. */
  readonly input: string
  /** The row's number in its file, for feature rows. */
  readonly row: number | null
  readonly flow: FlowFacts | null
  /** Whose flow it is: MAC address, or address where the link has none; where verdicts are explained, of novel ones. */
  readonly device?: string
  /** Why it is novel; of novel verdicts by score, where that was asked for. Until the verdicts are released. */
  readonly explain?: () => FlowExplanation
}

/** How many verdicts of each kind. */
export interface VerdictCounts {
  total: number
  novel: number
  byScore: number
  novelByScore: number
  onePacket: number
  novelOnePacket: number
  notJudged: number
}

function noVerdicts(): VerdictCounts {
  return { total: 0, novel: 0, byScore: 0, novelByScore: 0, onePacket: 0, novelOnePacket: 0, notJudged: 0 }
}

/** Adds one verdict to `counts`. */
function countVerdict(counts: VerdictCounts, rule: VerdictRule, novel: boolean): void {
  counts.total++
  if (novel) counts.novel++
  if (rule === 'score') {
    counts.byScore++
    if (novel) counts.novelByScore++
  } else if (rule === 'one-packet') {
    counts.onePacket++
    if (novel) counts.novelOnePacket++
  } else counts.notJudged++
}

export function countVerdicts(verdicts: Iterable<InputVerdict>): VerdictCounts {
  const counts = noVerdicts()
  for (const { rule, novel } of verdicts) countVerdict(counts, rule, novel)
  return counts
}

/** "192.0.2.1:443", "[2001:db8::1]:443". */
export function endpoint(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}

/** Runs of bytes of one length in a file that is removed with the program. */

interface ScratchRuns {
  /** Runs in the file. */
  readonly count: number
  readonly bytes: number
  /** Writes a run. Throws FileError. */
  add(run: Uint8Array): void
  /** Fills `into` from byte `at` of a run on. Throws FileError. */
  read(run: number, at: number, into: Uint8Array): void
  remove(): void
}

/** Throws FileError where there can be no such file. */
export function createScratchRuns(runBytes: number): ScratchRuns {
  let path = tmpdir()
  const doing = <T>(verb: 'read' | 'write', work: () => T): T => {
    try {
      return work()
    } catch (error) {
      throw fileError(verb, path, error)
    }
  }
  const folder = doing('write', () => openScratchFolder('oddflow-verdicts'))
  path = join(folder.path, 'runs')
  const fd = doing('write', () => openSync(path, 'wx+', 0o600))
  let count = 0
  return {
    get count() {
      return count
    },
    get bytes() {
      return count * runBytes
    },
    add(run) {
      doing('write', () => {
        for (let at = 0; at < runBytes; ) {
          at += writeSync(fd, run, at, runBytes - at, count * runBytes + at)
        }
      })
      count++
    },
    read(run, start, into) {
      doing('read', () => {
        for (let at = 0; at < into.length; ) {
          const got = readSync(fd, into, at, into.length - at, run * runBytes + start + at)
          if (got === 0) throw new Error('the scratch file is shorter than the data written to it')
          at += got
        }
      })
    },
    remove() {
      closeSync(fd)
      folder.remove()
    },
  }
}

/** 2^22 records: a scratch file of 400 MB. */
const MAXIMUM_RECORDS = 4_194_304

const RULES: readonly VerdictRule[] = ['score', 'one-packet', 'not-judged']
const BLOCK_RECORDS = 32_768
const BLOCKS_IN_MEMORY = 4
/** Of a run in the file, held while runs are merged. */
const BUFFER_RECORDS = 512

/**
 * A record in views of several widths: doubles (score, first packet, start, duration, bytes), words (packets, piece, eight
 * of addresses), ports, flags and protocol, the device's MAC address, then the number of its row among those kept.
 */
const RECORD_BYTES = 96
const DOUBLES = RECORD_BYTES / 8
const WORDS = RECORD_BYTES / 4
const FIRST_WORD = 10
const FIRST_ADDRESS_WORD = 12
const PORTS = RECORD_BYTES / 2
const FIRST_PORT = 40
const FLAGS = 84
const PROTOCOL = 85
const MAC = 86
const ROW_WORD = 23
const NO_ROW = 0xffffffff
const LOCAL_NETWORKS = PRIVATE_NETWORKS.map(parseNetwork)
/** Of a block of rows. */
const ROWS_BYTES = 2 ** 20

interface Records {
  readonly bytes: Uint8Array
  readonly doubles: Float64Array
  readonly words: Uint32Array
  readonly ports: Uint16Array
}

/** Sorted records that are merged with others. */
interface Run {
  records: Records
  /** In `records`. */
  next: number
  end: number
  /** Puts the next records there; false at the end of the run. */
  refill(): boolean
}

interface VerdictStoreOptions {
  /** Keep only what is novel; all is counted. */
  readonly novelOnly?: boolean | undefined
  /** Explains novel verdicts that a score gave. */
  readonly explain?: FlowExplainer | undefined
  readonly maximum?: number
}

export class VerdictStore implements Iterable<InputVerdict> {
  #length = 0
  /** The last is being filled; those before it are sorted. */
  #blocks: Records[] = []
  /** To sort into. */
  #spare: Records | null = null
  #scratch: ScratchRuns | null = null
  readonly #counts = noVerdicts()
  readonly #input: string
  readonly #threshold: number
  readonly #options: VerdictStoreOptions
  #rows: RowStore | null = null

  constructor(input: string, threshold: number, options: VerdictStoreOptions = {}) {
    this.#input = input
    this.#threshold = threshold
    this.#options = options
  }

  /** Verdicts kept. */
  get length(): number {
    return this.#length
  }

  /** Of all verdicts, kept or not. */
  get counts(): Readonly<VerdictCounts> {
    return this.#counts
  }

  /** Bytes in scratch files. */
  get scratchBytes(): number {
    return (this.#scratch?.bytes ?? 0) + (this.#rows?.scratchBytes ?? 0)
  }

  /**
   * Copies what the verdict needs of a borrowed record. Throws DataError when there is no room for more, FileError when a
   * scratch file cannot be written.
   */
  add(record: FlowRecord, { score, novel, rule }: Verdict): void {
    countVerdict(this.#counts, rule, novel)
    const { novelOnly = false, maximum = MAXIMUM_RECORDS, explain } = this.#options
    if (novelOnly && !novel) return
    if (this.#length >= maximum) {
      throw new DataError(
        `${this.#input}: more than ${maximum} flow records in one capture: split it (editcap -i 3600) or give a --filter`,
      )
    }
    let rowNumber = NO_ROW
    if (explain !== undefined && novel && rule === 'score' && record.row !== null) {
      this.#rows ??= new RowStore(record.row.length)
      rowNumber = this.#rows.add(record.row)
    }
    const { initiator, responder } = reportedBytes(record)
    const i = this.#length % BLOCK_RECORDS
    if (i === 0) this.#startBlock()
    const { bytes, doubles, words, ports } = this.#blocks[this.#blocks.length - 1]
    doubles[DOUBLES * i] = score ?? 0
    doubles[DOUBLES * i + 1] = record.firstPacketNumber
    doubles[DOUBLES * i + 2] = record.startMicros
    doubles[DOUBLES * i + 3] = record.durationMicros
    doubles[DOUBLES * i + 4] = initiator + responder
    words[WORDS * i + FIRST_WORD] = record.packets
    words[WORDS * i + FIRST_WORD + 1] = record.pieceIndex
    words.set(record.initiatorAddress, WORDS * i + FIRST_ADDRESS_WORD)
    words.set(record.responderAddress, WORDS * i + FIRST_ADDRESS_WORD + 4)
    ports[PORTS * i + FIRST_PORT] = record.initiatorPort
    ports[PORTS * i + FIRST_PORT + 1] = record.responderPort
    const isResponder = explain !== undefined && novel && isResponderDevice(record, LOCAL_NETWORKS)
    bytes.set(isResponder ? record.responderMac : record.initiatorMac, RECORD_BYTES * i + MAC)
    bytes[RECORD_BYTES * i + FLAGS] =
      RULES.indexOf(rule) | (novel ? 4 : 0) | (record.ipVersion === 6 ? 8 : 0) | (isResponder ? 16 : 0)
    bytes[RECORD_BYTES * i + PROTOCOL] = record.protocol
    words[WORDS * i + ROW_WORD] = rowNumber
    this.#length++
  }

  /** In order of first packets; records of one first packet (there are none) would keep theirs. */
  *[Symbol.iterator](): Generator<InputVerdict> {
    if (this.#length === 0) return
    this.#sortLast(((this.#length - 1) % BLOCK_RECORDS) + 1)
    const runs = this.#runs()
    const keyOf = ({ records, next }: Run): number => records.doubles[DOUBLES * next + 1]
    const keys = runs.map(keyOf)
    for (let left = this.#length; left > 0; left--) {
      let first = 0
      for (let run = 1; run < keys.length; run++) if (keys[run] < keys[first]) first = run
      const run = runs[first]
      yield this.#verdict(run.records, run.next)
      run.next++
      keys[first] = run.next < run.end || run.refill() ? keyOf(run) : Number.POSITIVE_INFINITY
    }
  }

  /** Gives back the memory and the scratch file; the verdicts are gone, the counts are not. */
  release(): void {
    this.#length = 0
    this.#blocks = []
    this.#spare = null
    this.#scratch?.remove()
    this.#scratch = null
    this.#rows?.release()
    this.#rows = null
  }

  #verdict({ bytes, doubles, words, ports }: Records, i: number): InputVerdict {
    const flags = bytes[RECORD_BYTES * i + FLAGS]
    const score = doubles[DOUBLES * i]
    const rule = RULES[flags & 3]
    const ipVersion = flags & 8 ? 6 : 4
    const address = WORDS * i + FIRST_ADDRESS_WORD
    const rowNumber = words[WORDS * i + ROW_WORD]
    const packets = words[WORDS * i + FIRST_WORD]
    const { explain } = this.#options
    const rows = this.#rows
    const source = formatAddress(words, address, ipVersion)
    const destination = formatAddress(words, address + 4, ipVersion)
    const mac = bytes.subarray(RECORD_BYTES * i + MAC, RECORD_BYTES * i + MAC + 6)
    return {
      score: rule === 'score' ? score : null,
      decision: rule === 'score' ? score - this.#threshold : null,
      novel: (flags & 4) !== 0,
      rule,
      input: this.#input,
      row: null,
      flow: {
        capture: this.#input,
        protocol: protocolName(bytes[RECORD_BYTES * i + PROTOCOL]),
        source,
        sourcePort: ports[PORTS * i + FIRST_PORT],
        destination,
        destinationPort: ports[PORTS * i + FIRST_PORT + 1],
        startMicros: doubles[DOUBLES * i + 2],
        durationMicros: doubles[DOUBLES * i + 3],
        packets,
        bytes: doubles[DOUBLES * i + 4],
        piece: words[WORDS * i + FIRST_WORD + 1],
      },
      ...(explain === undefined || (flags & 4) === 0
        ? {}
        : { device: macText(mac) ?? ((flags & 16) !== 0 ? destination : source) }),
      ...(explain === undefined || rows === null || rowNumber === NO_ROW
        ? {}
        : {
            explain: () => explain({ row: rows.at(rowNumber), score, threshold: this.#threshold, packets }),
          }),
    }
  }

  /** The block before is full: it is sorted, and where enough are held it makes room. */
  #startBlock(): void {
    if (this.#blocks.length > 0) this.#sortLast(BLOCK_RECORDS)
    if (this.#blocks.length < BLOCKS_IN_MEMORY) {
      this.#blocks.push(createRecords(BLOCK_RECORDS))
      return
    }
    this.#scratch ??= createScratchRuns(BLOCK_RECORDS * RECORD_BYTES)
    this.#scratch.add(this.#blocks[BLOCKS_IN_MEMORY - 1].bytes)
  }

  #sortLast(length: number): void {
    const last = this.#blocks.length - 1
    const block = this.#blocks[last]
    // sorted in its place, without a comparator's copies; exact for captures of up to 2^38 packets
    const keys = new Float64Array(length)
    for (let i = 0; i < length; i++) keys[i] = block.doubles[DOUBLES * i + 1] * BLOCK_RECORDS + i
    keys.sort()
    const sorted = this.#spare ?? createRecords(BLOCK_RECORDS)
    for (let i = 0; i < length; i++) {
      const from = DOUBLES * (keys[i] % BLOCK_RECORDS)
      sorted.doubles.set(block.doubles.subarray(from, from + DOUBLES), DOUBLES * i)
    }
    this.#blocks[last] = sorted
    this.#spare = block
  }

  #runs(): Run[] {
    const inMemory = this.#blocks.map((records, block): Run => {
      const isLast = block === this.#blocks.length - 1
      const end = isLast ? ((this.#length - 1) % BLOCK_RECORDS) + 1 : BLOCK_RECORDS
      return { records, next: 0, end, refill: () => false }
    })
    const scratch = this.#scratch
    if (scratch === null) return inMemory
    const inFile = Array.from({ length: scratch.count }, (_, run): Run => {
      const records = createRecords(BUFFER_RECORDS)
      let at = 0
      const refill = (): boolean => {
        if (at === BLOCK_RECORDS) return false
        scratch.read(run, at * RECORD_BYTES, records.bytes)
        at += BUFFER_RECORDS
        buffered.next = 0
        return true
      }
      const buffered: Run = { records, next: 0, end: BUFFER_RECORDS, refill }
      refill()
      return buffered
    })
    return [...inMemory, ...inFile]
  }
}

function createRecords(count: number): Records {
  const buffer = new ArrayBuffer(count * RECORD_BYTES)
  return {
    bytes: new Uint8Array(buffer),
    doubles: new Float64Array(buffer),
    words: new Uint32Array(buffer),
    ports: new Uint16Array(buffer),
  }
}

/** Rows of one width by their number, in the order added: a block in memory, the others in a scratch file. */
class RowStore {
  readonly #cols: number
  readonly #blockRows: number
  readonly #block: Float64Array
  #length = 0
  #scratch: ScratchRuns | null = null

  constructor(cols: number) {
    this.#cols = cols
    this.#blockRows = Math.max(1, Math.floor(ROWS_BYTES / (8 * cols)))
    this.#block = new Float64Array(this.#blockRows * cols)
  }

  get scratchBytes(): number {
    return this.#scratch?.bytes ?? 0
  }

  add(row: Float64Array): number {
    const at = this.#length % this.#blockRows
    if (at === 0 && this.#length > 0) {
      this.#scratch ??= createScratchRuns(this.#block.byteLength)
      this.#scratch.add(new Uint8Array(this.#block.buffer))
    }
    this.#block.set(row, at * this.#cols)
    return this.#length++
  }

  at(number: number): Float64Array {
    const block = Math.floor(number / this.#blockRows)
    const start = (number % this.#blockRows) * this.#cols
    if (block >= (this.#scratch?.count ?? 0)) return this.#block.slice(start, start + this.#cols)
    const row = new Float64Array(this.#cols)
    this.#scratch?.read(block, 8 * start, new Uint8Array(row.buffer))
    return row
  }

  release(): void {
    this.#scratch?.remove()
    this.#scratch = null
  }
}
