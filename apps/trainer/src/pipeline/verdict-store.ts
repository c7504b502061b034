/**
 * VerdictStore: the verdicts of one capture, held in columns until its end, since they are given in the order
 * of first packets and a long flow's verdict comes after those of later ones.
 *
 * A record takes about 90 bytes in typed arrays (an object with its strings takes a thousand), so a capture
 * that is nothing but tiny flows cannot exhaust the heap, and the number of records is bounded: beyond it
 * reading stops with an error that says what to do. Verdicts are made one at a time when they are asked for.
 */
import { formatAddress } from '@oddflow/capture'
import { DataError } from '@oddflow/core'
import { type FlowRecord, protocolName } from '@oddflow/flows'
import type { Judgement, VerdictRule } from '@oddflow/program'
import type { Verdict } from './verdict.js'

/** 2^22 records: about 400 MB. */
export const MAXIMUM_RECORDS = 4_194_304

const RULES: readonly VerdictRule[] = ['score', 'one-packet', 'not-judged']
const ADDRESS_WORDS = 8

export class VerdictStore implements Iterable<Verdict> {
  #count = 0
  #numbers = new Float64Array(0)
  #words = new Uint32Array(0)
  #ports = new Uint16Array(0)
  #flags = new Uint8Array(0)
  #protocols = new Uint8Array(0)
  #order: Uint32Array | null = null
  readonly #input: string
  readonly #threshold: number
  readonly #maximum: number

  constructor(input: string, threshold: number, maximum = MAXIMUM_RECORDS) {
    this.#input = input
    this.#threshold = threshold
    this.#maximum = maximum
  }

  get length(): number {
    return this.#count
  }

  /** Copies what the verdict needs of a borrowed record. Throws DataError when there is no room for more. */
  add(record: FlowRecord, { score, novel, rule }: Judgement): void {
    const i = this.#count
    if (i >= this.#maximum) {
      throw new DataError(
        `${this.#input}: more than ${this.#maximum} flow records in one capture: split it (editcap -i 3600) or give a --filter`,
      )
    }
    if (this.#flags.length === i) this.#grow(Math.min(this.#maximum, Math.max(1024, 2 * i)))
    this.#numbers.set(
      [score ?? 0, record.firstPacketNumber, record.startMicros, record.durationMicros, record.bytes],
      5 * i,
    )
    const words = (ADDRESS_WORDS + 2) * i
    this.#words.set(record.initiatorAddress, words)
    this.#words.set(record.responderAddress, words + 4)
    this.#words[words + 8] = record.packets
    this.#words[words + 9] = record.pieceIndex
    this.#ports[2 * i] = record.initiatorPort
    this.#ports[2 * i + 1] = record.responderPort
    this.#flags[i] = RULES.indexOf(rule) | (novel ? 4 : 0) | (record.ipVersion === 6 ? 8 : 0)
    this.#protocols[i] = record.protocol
    this.#count++
    this.#order = null
  }

  /** In order of first packets; records of one first packet (there are none) would keep theirs. */
  *[Symbol.iterator](): Generator<Verdict> {
    this.#order ??= this.#sorted()
    for (const i of this.#order) yield this.#verdict(i)
  }

  #verdict(i: number): Verdict {
    const [score, , startMicros, durationMicros, bytes] = this.#numbers.subarray(5 * i, 5 * i + 5)
    const words = (ADDRESS_WORDS + 2) * i
    const flags = this.#flags[i]
    const rule = RULES[flags & 3]
    const ipVersion = flags & 8 ? 6 : 4
    return {
      score: rule === 'score' ? score : null,
      decision: rule === 'score' ? score - this.#threshold : null,
      novel: (flags & 4) !== 0,
      rule,
      input: this.#input,
      row: null,
      flow: {
        capture: this.#input,
        protocol: protocolName(this.#protocols[i]),
        source: formatAddress(this.#words, words, ipVersion),
        sourcePort: this.#ports[2 * i],
        destination: formatAddress(this.#words, words + 4, ipVersion),
        destinationPort: this.#ports[2 * i + 1],
        startMicros,
        durationMicros,
        packets: this.#words[words + 8],
        bytes,
        piece: this.#words[words + 9],
      },
    }
  }

  #sorted(): Uint32Array {
    const order = Uint32Array.from({ length: this.#count }, (_, i) => i)
    return order.sort((a, b) => this.#numbers[5 * a + 1] - this.#numbers[5 * b + 1] || a - b)
  }

  #grow(capacity: number): void {
    const grown = <T extends Float64Array | Uint32Array | Uint16Array | Uint8Array>(from: T, to: T): T => {
      to.set(from)
      return to
    }
    this.#numbers = grown(this.#numbers, new Float64Array(5 * capacity))
    this.#words = grown(this.#words, new Uint32Array((ADDRESS_WORDS + 2) * capacity))
    this.#ports = grown(this.#ports, new Uint16Array(2 * capacity))
    this.#flags = grown(this.#flags, new Uint8Array(capacity))
    this.#protocols = grown(this.#protocols, new Uint8Array(capacity))
  }
}
