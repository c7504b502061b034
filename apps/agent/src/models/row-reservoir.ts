/**
 * RowReservoir: a uniform sample of a scope's feature rows, in their order of arrival, and the services of its flows of one packet.
 *
 * Vitter, "Random sampling with a reservoir" (ACM TOMS 11, 1985), Algorithm R. Random numbers depend on the seed and the row's number
 * only, so a saved reservoir continues as before. A row is D float64 numbers, its number, and the start and the pair of addresses of its
 * flow: 8(D + 3) bytes. The file is safetensors with a checksum.
 */
import {
  crc32,
  createRng,
  decodeSafetensors,
  encodeSafetensors,
  FormatError,
  type Matrix,
  matrixOf,
  type OnePacketRule,
  type Tensor,
} from '@oddflow/core'
import { MAXIMUM_SERVICES } from '@oddflow/flows'

export interface ReservoirShape {
  /** D. */
  readonly dimension: number
  readonly capacity: number
  readonly seed: number
}

const FIRST_ROWS = 32
const KIND = 'oddflow-rows'

type RowShape = Pick<ReservoirShape, 'dimension' | 'capacity'>

/** Maximum size of a reservoir's rows. */
export function reservoirBytes({ dimension, capacity }: RowShape): number {
  return 8 * (dimension + 3) * capacity
}

export function createRowReservoir(shape: ReservoirShape): RowReservoir {
  return new RowReservoir(shape, {
    count: 0,
    seen: 0,
    rows: new Float64Array(0),
    numbers: new Float64Array(0),
    starts: new Float64Array(0),
    pairs: new Float64Array(0),
    onePacketFlows: 0,
    services: new Map(),
    notes: new Map(),
  })
}

/** Numbers of each row. */
const COLUMNS = ['numbers', 'starts', 'pairs'] as const

interface Contents extends Record<'rows' | (typeof COLUMNS)[number], Float64Array> {
  count: number
  /** Rows that it is a sample of. */
  seen: number
  onePacketFlows: number
  readonly services: Map<string, number>
  /** Numbers that are saved with it. */
  readonly notes: Map<string, number>
}

export class RowReservoir {
  readonly #dimension: number
  readonly #capacity: number
  readonly #rng: ReturnType<typeof createRng>
  readonly #contents: Contents

  constructor({ dimension, capacity, seed }: ReservoirShape, contents: Contents) {
    this.#dimension = dimension
    this.#capacity = capacity
    this.#rng = createRng(seed)
    this.#contents = contents
  }

  get count(): number {
    return this.#contents.count
  }

  /** Rows that it is a sample of. */
  get seen(): number {
    return this.#contents.seen
  }

  /** Current size of its rows. */
  get bytes(): number {
    const contents = this.#contents
    return contents.rows.byteLength + COLUMNS.reduce((sum, column) => sum + contents[column].byteLength, 0)
  }

  /** Numbers that are saved with it. */
  get notes(): Map<string, number> {
    return this.#contents.notes
  }

  /** Adds or drops a copy of D numbers. @param pair - of the flow's addresses (addressPair). */
  add(row: Float64Array, startMicros: number = Number.NaN, pair = 0): void {
    const contents = this.#contents
    this.#makeRoom()
    const place = this.#placeFor()
    if (place >= 0) {
      contents.rows.set(row, place * this.#dimension)
      contents.numbers[place] = contents.seen
      contents.starts[place] = startMicros
      contents.pairs[place] = pair
    }
    contents.seen++
  }

  /** Removes rows of flows between these addresses that began in this time. Returns their number. */
  removeFlows(pairs: ReadonlySet<number>, fromMicros: number, toMicros: number): number {
    const contents = this.#contents
    const dimension = this.#dimension
    const before = contents.count
    for (let place = before - 1; place >= 0; place--) {
      const isOfTime = contents.starts[place] >= fromMicros && contents.starts[place] <= toMicros
      if (!isOfTime || !pairs.has(contents.pairs[place])) continue
      const last = --contents.count
      contents.rows.copyWithin(place * dimension, last * dimension, (last + 1) * dimension)
      for (const column of COLUMNS) contents[column][place] = contents[column][last]
    }
    return before - contents.count
  }

  /** The packets' clock was set. */
  clockSet(byMicros: number): void {
    const { count, starts } = this.#contents
    for (let place = 0; place < count; place++) starts[place] += byMicros
  }

  /** A flow of one packet to this service. */
  addOnePacket(service: string): void {
    this.#contents.onePacketFlows++
    const { services } = this.#contents
    const before = services.get(service)
    if (before !== undefined || services.size < MAXIMUM_SERVICES) services.set(service, (before ?? 0) + 1)
  }

  /** n × D, a copy, in the order of arrival. */
  rows(): Matrix {
    const { count, numbers, rows } = this.#contents
    const dimension = this.#dimension
    const inOrder = Uint32Array.from({ length: count }, (_, i) => i).sort((a, b) => numbers[a] - numbers[b])
    const out = new Float64Array(count * dimension)
    inOrder.forEach((place, i) => {
      out.set(rows.subarray(place * dimension, (place + 1) * dimension), i * dimension)
    })
    return matrixOf(count, dimension, out)
  }

  onePacketRule(): OnePacketRule {
    const { onePacketFlows, services } = this.#contents
    return { flows: onePacketFlows, services: [...services.keys()].sort() }
  }

  encode(): Uint8Array {
    const { count, seen, onePacketFlows, services, notes, rows: all } = this.#contents
    const rows = all.slice(0, count * this.#dimension)
    const columns = COLUMNS.map((column) => this.#contents[column].slice(0, count))
    const facts = JSON.stringify({ seen, onePacketFlows, services: [...services], notes: [...notes] })
    return encodeSafetensors({
      tensors: new Map<string, Tensor>([
        ['rows', { dtype: 'F64', shape: [count, this.#dimension], data: rows }],
        ...COLUMNS.map(
          (column, i) =>
            [column, { dtype: 'F64', shape: [count], data: columns[i] as Float64Array }] as const,
        ),
      ]),
      metadata: new Map([
        ['kind', KIND],
        ['facts', facts],
        ['crc32', String(checksum([rows, ...columns], facts))],
      ]),
    })
  }

  /** The place of the next row; -1 if the sample does not take it. */
  #placeFor(): number {
    const contents = this.#contents
    if (contents.count < this.#capacity) return contents.count++
    const place = this.#rng.fork(String(contents.seen)).nextBelow(contents.seen + 1)
    return place < this.#capacity ? place : -1
  }

  #makeRoom(): void {
    const contents = this.#contents
    const places = contents.numbers.length
    if (contents.count < places || places === this.#capacity) return
    const more = Math.min(this.#capacity, Math.max(FIRST_ROWS, 2 * places))
    const grown = (from: Float64Array, length: number): Float64Array => {
      const into = new Float64Array(length)
      into.set(from)
      return into
    }
    contents.rows = grown(contents.rows, more * this.#dimension)
    for (const column of COLUMNS) contents[column] = grown(contents[column], more)
  }
}

/** Throws FormatError for damage, another width, or more rows than the capacity. */
export function decodeRowReservoir(bytes: Uint8Array, shape: ReservoirShape): RowReservoir {
  const refuse = (message: string): never => {
    throw new FormatError('rows', message)
  }
  const { tensors, metadata } = decodeSafetensors(bytes)
  const text = metadata.get('facts') ?? ''
  const rows = tensors.get('rows')
  // rows of an earlier version have no starts and no pairs
  const columns = COLUMNS.flatMap((column) => tensors.get(column) ?? [])
  const [numbers, starts, pairs] = columns
  const isOfNumbers = [rows, ...columns].every((tensor) => tensor?.dtype === 'F64')
  if (metadata.get('kind') !== KIND || rows === undefined || numbers === undefined || !isOfNumbers) {
    return refuse(`expected ${KIND}`)
  }
  const [count, dimension] = rows.shape
  if (dimension !== shape.dimension || columns.some((column) => column.shape[0] !== count)) {
    return refuse(`expected rows of ${shape.dimension} numbers, found ${dimension}`)
  }
  if (count > shape.capacity) return refuse(`expected at most ${shape.capacity} rows, found ${count}`)
  const data = [rows, ...columns].map((tensor) => tensor.data as Float64Array)
  if (metadata.get('crc32') !== String(checksum(data, text))) {
    return refuse('the checksum does not match: the file is damaged')
  }
  const facts = JSON.parse(text) as {
    seen: number
    onePacketFlows: number
    services: [string, number][]
    notes: [string, number][]
  }
  if (!(facts.seen >= count) || facts.services.length > MAXIMUM_SERVICES) return refuse('expected counts')
  return new RowReservoir(shape, {
    count,
    seen: facts.seen,
    rows: rows.data as Float64Array,
    numbers: numbers.data as Float64Array,
    starts: (starts?.data as Float64Array | undefined) ?? new Float64Array(count).fill(Number.NaN),
    pairs: (pairs?.data as Float64Array | undefined) ?? new Float64Array(count),
    onePacketFlows: facts.onePacketFlows,
    services: new Map(facts.services),
    notes: new Map(facts.notes),
  })
}

function checksum(columns: readonly Float64Array[], facts: string): number {
  const bytes = (data: Float64Array): Uint8Array =>
    new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
  const sum = columns.reduce((crc, column) => crc32(bytes(column), crc), crc32(new Uint8Array(0)))
  return crc32(new TextEncoder().encode(facts), sum)
}
