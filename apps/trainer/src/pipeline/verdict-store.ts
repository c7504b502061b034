/**
 * VerdictStore: the verdicts of one capture, held until its end, since they are given in the order of first packets
 * and a long flow's verdict comes after those of later ones.
 *
 * A record takes 88 bytes (an object with its strings takes a thousand). They come in blocks of 32,768, each sorted
 * when it is full. Four blocks are held in memory, 12 MB; what comes after them goes into a scratch file, a sorted run a
 * block, and the runs are merged as the verdicts are asked for, through small buffers. So memory is bounded by about
 * 20 MB however many records there are, and the file by the bound on their number, beyond which reading stops with an
 * error that says what to do. Most captures need no file. Verdicts are made one at a time when they are asked for.
 * What is not to be given out is counted and not kept.
 */
import { formatAddress } from '@oddflow/capture'
import { DataError } from '@oddflow/core'
import { type FlowRecord, protocolName } from '@oddflow/flows'
import type { Judgement, VerdictRule } from '@oddflow/program'
import { createScratchRuns, type ScratchRuns } from './scratch-runs.js'
import { countVerdict, noVerdicts, type Verdict, type VerdictCounts } from './verdict.js'

/** 2^22 records: a scratch file of 350 MB. */
export const MAXIMUM_RECORDS = 4_194_304

const RULES: readonly VerdictRule[] = ['score', 'one-packet', 'not-judged']
const BLOCK_RECORDS = 32_768
const BLOCKS_IN_MEMORY = 4
/** Of a run in the file, held while runs are merged. */
const BUFFER_RECORDS = 512

/**
 * The bytes of a record, in views of several widths: doubles (score, first packet, start, duration, bytes), words
 * (packets, piece, eight of addresses), ports, then flags and protocol.
 */
const RECORD_BYTES = 88
const DOUBLES = RECORD_BYTES / 8
const WORDS = RECORD_BYTES / 4
const FIRST_WORD = 10
const FIRST_ADDRESS_WORD = 12
const PORTS = RECORD_BYTES / 2
const FIRST_PORT = 40
const FLAGS = 84
const PROTOCOL = 85

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

export class VerdictStore implements Iterable<Verdict> {
  #length = 0
  /** The last is being filled; those before it are sorted. */
  #blocks: Records[] = []
  /** To sort into. */
  #spare: Records | null = null
  #scratch: ScratchRuns | null = null
  readonly #counts = noVerdicts()
  readonly #input: string
  readonly #threshold: number
  readonly #novelOnly: boolean
  readonly #maximum: number

  /** @param novelOnly keep only what is novel; all is counted. */
  constructor(input: string, threshold: number, novelOnly = false, maximum = MAXIMUM_RECORDS) {
    this.#input = input
    this.#threshold = threshold
    this.#novelOnly = novelOnly
    this.#maximum = maximum
  }

  /** Verdicts kept. */
  get length(): number {
    return this.#length
  }

  /** Of all verdicts, kept or not. */
  get counts(): Readonly<VerdictCounts> {
    return this.#counts
  }

  /** Bytes in the scratch file. */
  get scratchBytes(): number {
    return this.#scratch?.bytes ?? 0
  }

  /**
   * Copies what the verdict needs of a borrowed record. @param flowBytes - what the verdict says of bytes. Throws DataError when there is no room for more, FileError
   * when the scratch file cannot be written.
   */
  add(record: FlowRecord, { score, novel, rule }: Judgement, flowBytes = record.bytes): void {
    countVerdict(this.#counts, rule, novel)
    if (this.#novelOnly && !novel) return
    if (this.#length >= this.#maximum) {
      throw new DataError(
        `${this.#input}: more than ${this.#maximum} flow records in one capture: split it (editcap -i 3600) or give a --filter`,
      )
    }
    const i = this.#length % BLOCK_RECORDS
    if (i === 0) this.#startBlock()
    const { bytes, doubles, words, ports } = this.#blocks[this.#blocks.length - 1]
    doubles[DOUBLES * i] = score ?? 0
    doubles[DOUBLES * i + 1] = record.firstPacketNumber
    doubles[DOUBLES * i + 2] = record.startMicros
    doubles[DOUBLES * i + 3] = record.durationMicros
    doubles[DOUBLES * i + 4] = flowBytes
    words[WORDS * i + FIRST_WORD] = record.packets
    words[WORDS * i + FIRST_WORD + 1] = record.pieceIndex
    words.set(record.initiatorAddress, WORDS * i + FIRST_ADDRESS_WORD)
    words.set(record.responderAddress, WORDS * i + FIRST_ADDRESS_WORD + 4)
    ports[PORTS * i + FIRST_PORT] = record.initiatorPort
    ports[PORTS * i + FIRST_PORT + 1] = record.responderPort
    bytes[RECORD_BYTES * i + FLAGS] = RULES.indexOf(rule) | (novel ? 4 : 0) | (record.ipVersion === 6 ? 8 : 0)
    bytes[RECORD_BYTES * i + PROTOCOL] = record.protocol
    this.#length++
  }

  /** In order of first packets; records of one first packet (there are none) would keep theirs. */
  *[Symbol.iterator](): Generator<Verdict> {
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
  }

  #verdict({ bytes, doubles, words, ports }: Records, i: number): Verdict {
    const flags = bytes[RECORD_BYTES * i + FLAGS]
    const score = doubles[DOUBLES * i]
    const rule = RULES[flags & 3]
    const ipVersion = flags & 8 ? 6 : 4
    const address = WORDS * i + FIRST_ADDRESS_WORD
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
        source: formatAddress(words, address, ipVersion),
        sourcePort: ports[PORTS * i + FIRST_PORT],
        destination: formatAddress(words, address + 4, ipVersion),
        destinationPort: ports[PORTS * i + FIRST_PORT + 1],
        startMicros: doubles[DOUBLES * i + 2],
        durationMicros: doubles[DOUBLES * i + 3],
        packets: words[WORDS * i + FIRST_WORD],
        bytes: doubles[DOUBLES * i + 4],
        piece: words[WORDS * i + FIRST_WORD + 1],
      },
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
