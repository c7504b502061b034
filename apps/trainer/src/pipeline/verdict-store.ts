/**
 * VerdictStore: the verdicts of one capture, held in columns until its end, since they are given in the order
 * of first packets and a long flow's verdict comes after those of later ones.
 *
 * A record takes 66 bytes in typed arrays with IPv4 addresses, 90 with IPv6 (an object with its strings takes a
 * thousand), so a capture that is nothing but tiny flows cannot exhaust the heap, and the number of records is
 * bounded: beyond it reading stops with an error that says what to do. The columns come in blocks of 65,536
 * records, so that nothing is copied, and nothing held twice, while they grow. Verdicts are made one at a time when
 * they are asked for. What is not to be given out is counted and not kept.
 */
import { formatAddress } from '@oddflow/capture'
import { DataError } from '@oddflow/core'
import { type FlowRecord, protocolName } from '@oddflow/flows'
import type { Judgement, VerdictRule } from '@oddflow/program'
import { countVerdict, noVerdicts, type Verdict, type VerdictCounts } from './verdict.js'

/** 2^22 records: about 280 MB, or 380 MB with IPv6. */
export const MAXIMUM_RECORDS = 4_194_304

const RULES: readonly VerdictRule[] = ['score', 'one-packet', 'not-judged']
const BLOCK_RECORDS = 65_536
const ADDRESS_BLOCK_WORDS = 2 * BLOCK_RECORDS

interface Block {
  /** score, first packet, start, duration, bytes */
  readonly numbers: Float64Array
  /** packets, piece, first word of the addresses */
  readonly words: Uint32Array
  readonly ports: Uint16Array
  readonly flags: Uint8Array
  readonly protocols: Uint8Array
}

export class VerdictStore implements Iterable<Verdict> {
  #length = 0
  #addressWords = 0
  readonly #blocks: Block[] = []
  readonly #addresses: Uint32Array[] = []
  readonly #counts = noVerdicts()
  #orders: readonly Uint16Array[] | null = null
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

  /** Copies what the verdict needs of a borrowed record. Throws DataError when there is no room for more. */
  add(record: FlowRecord, { score, novel, rule }: Judgement): void {
    countVerdict(this.#counts, rule, novel)
    if (this.#novelOnly && !novel) return
    if (this.#length >= this.#maximum) {
      throw new DataError(
        `${this.#input}: more than ${this.#maximum} flow records in one capture: split it (editcap -i 3600) or give a --filter`,
      )
    }
    const i = this.#length % BLOCK_RECORDS
    if (i === 0) this.#blocks.push(newBlock())
    const { numbers, words, ports, flags, protocols } = this.#blocks[this.#blocks.length - 1]
    numbers[5 * i] = score ?? 0
    numbers[5 * i + 1] = record.firstPacketNumber
    numbers[5 * i + 2] = record.startMicros
    numbers[5 * i + 3] = record.durationMicros
    numbers[5 * i + 4] = record.bytes
    words[3 * i] = record.packets
    words[3 * i + 1] = record.pieceIndex
    words[3 * i + 2] = this.#addressWords
    // an IPv4 address is the last of four words
    const skipped = record.ipVersion === 6 ? 0 : 3
    for (let w = skipped; w < 4; w++) this.#addAddressWord(record.initiatorAddress[w])
    for (let w = skipped; w < 4; w++) this.#addAddressWord(record.responderAddress[w])
    ports[2 * i] = record.initiatorPort
    ports[2 * i + 1] = record.responderPort
    flags[i] = RULES.indexOf(rule) | (novel ? 4 : 0) | (record.ipVersion === 6 ? 8 : 0)
    protocols[i] = record.protocol
    this.#length++
    this.#orders = null
  }

  /** In order of first packets; records of one first packet (there are none) would keep theirs. */
  *[Symbol.iterator](): Generator<Verdict> {
    this.#orders ??= this.#sorted()
    const addresses = new Uint32Array(8)
    for (const i of this.#ordered(this.#orders)) yield this.#verdict(i, addresses)
  }

  /** @param addresses scratch of eight words */
  #verdict(index: number, addresses: Uint32Array): Verdict {
    const i = index % BLOCK_RECORDS
    const { numbers, words, ports, flags, protocols } = this.#blocks[(index - i) / BLOCK_RECORDS]
    const score = numbers[5 * i]
    const rule = RULES[flags[i] & 3]
    const ipVersion = flags[i] & 8 ? 6 : 4
    const skipped = ipVersion === 6 ? 0 : 3
    let word = words[3 * i + 2]
    addresses.fill(0)
    for (let w = skipped; w < 4; w++) addresses[w] = this.#addressWord(word++)
    for (let w = skipped; w < 4; w++) addresses[4 + w] = this.#addressWord(word++)
    return {
      score: rule === 'score' ? score : null,
      decision: rule === 'score' ? score - this.#threshold : null,
      novel: (flags[i] & 4) !== 0,
      rule,
      input: this.#input,
      row: null,
      flow: {
        capture: this.#input,
        protocol: protocolName(protocols[i]),
        source: formatAddress(addresses, 0, ipVersion),
        sourcePort: ports[2 * i],
        destination: formatAddress(addresses, 4, ipVersion),
        destinationPort: ports[2 * i + 1],
        startMicros: numbers[5 * i + 2],
        durationMicros: numbers[5 * i + 3],
        packets: words[3 * i],
        bytes: numbers[5 * i + 4],
        piece: words[3 * i + 1],
      },
    }
  }

  #addAddressWord(word: number): void {
    const at = this.#addressWords++ % ADDRESS_BLOCK_WORDS
    if (at === 0) this.#addresses.push(new Uint32Array(ADDRESS_BLOCK_WORDS))
    this.#addresses[this.#addresses.length - 1][at] = word
  }

  #addressWord(word: number): number {
    const at = word % ADDRESS_BLOCK_WORDS
    return this.#addresses[(word - at) / ADDRESS_BLOCK_WORDS][at]
  }

  /** The order within each block. */
  #sorted(): Uint16Array[] {
    return this.#blocks.map(({ numbers }, block) => {
      const length = Math.min(BLOCK_RECORDS, this.#length - block * BLOCK_RECORDS)
      // sorted in its place, without a comparator's copies; exact for captures of up to 2^37 packets
      const keys = new Float64Array(length)
      for (let i = 0; i < length; i++) keys[i] = numbers[5 * i + 1] * BLOCK_RECORDS + i
      return Uint16Array.from(keys.sort(), (key) => key % BLOCK_RECORDS)
    })
  }

  /** Indices in order of first packets: the sorted blocks merged. */
  *#ordered(orders: readonly Uint16Array[]): Generator<number> {
    const next = orders.map(() => 0)
    const keys = orders.map((order, block) => this.#blocks[block].numbers[5 * order[0] + 1])
    for (let left = this.#length; left > 0; left--) {
      let first = 0
      for (let block = 1; block < keys.length; block++) if (keys[block] < keys[first]) first = block
      const order = orders[first]
      yield first * BLOCK_RECORDS + order[next[first]]
      const after = ++next[first]
      keys[first] =
        after < order.length ? this.#blocks[first].numbers[5 * order[after] + 1] : Number.POSITIVE_INFINITY
    }
  }
}

function newBlock(): Block {
  return {
    numbers: new Float64Array(5 * BLOCK_RECORDS),
    words: new Uint32Array(3 * BLOCK_RECORDS),
    ports: new Uint16Array(2 * BLOCK_RECORDS),
    flags: new Uint8Array(BLOCK_RECORDS),
    protocols: new Uint8Array(BLOCK_RECORDS),
  }
}
