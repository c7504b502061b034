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
} from '@oddflow/core'
import { MAXIMUM_SERVICES } from '@oddflow/flows'

export interface ReservoirShape {
  /** D. */
  readonly dimension: number
  readonly capacity: number
  readonly seed: number
}

/** The numbers of a row: its features, its number, and the start and the pair of addresses of its flow. */
const COLUMNS = ['rows', 'numbers', 'starts', 'pairs'] as const
type Columns = Record<(typeof COLUMNS)[number], Float64Array>

const widthOf = (name: keyof Columns, dimension: number): number => (name === 'rows' ? dimension : 1)

function columnsOf(dimension: number, of: (name: keyof Columns, width: number) => Float64Array): Columns {
  return Object.fromEntries(COLUMNS.map((name) => [name, of(name, widthOf(name, dimension))])) as Columns
}

/** What is saved beside the rows. */
interface Facts {
  /** Rows that it is a sample of. */
  readonly seen: number
  readonly onePacketFlows: number
  readonly services: readonly (readonly [string, number])[]
  readonly notes: readonly (readonly [string, number])[]
}

const FIRST_ROWS = 32
const KIND = 'oddflow-rows'

/** Maximum size of a reservoir's rows. */
export function reservoirBytes({ dimension, capacity }: Omit<ReservoirShape, 'seed'>): number {
  return 8 * (dimension + 3) * capacity
}

export class RowReservoir {
  /** Numbers that are saved with it. */
  readonly notes: Map<string, number>
  readonly #shape: ReservoirShape
  readonly #rng: ReturnType<typeof createRng>
  readonly #services: Map<string, number>
  #columns: Columns
  #count: number
  #seen: number
  #onePacketFlows: number

  constructor(
    shape: ReservoirShape,
    columns: Columns = columnsOf(0, () => new Float64Array(0)),
    facts: Facts = { seen: 0, onePacketFlows: 0, services: [], notes: [] },
  ) {
    this.#shape = shape
    this.#rng = createRng(shape.seed)
    this.#columns = columns
    this.#count = columns.numbers.length
    this.#seen = facts.seen
    this.#onePacketFlows = facts.onePacketFlows
    this.#services = new Map(facts.services)
    this.notes = new Map(facts.notes)
  }

  get count(): number {
    return this.#count
  }

  /** Rows that it is a sample of. */
  get seen(): number {
    return this.#seen
  }

  /** Current size of its rows. */
  get bytes(): number {
    return COLUMNS.reduce((sum, name) => sum + this.#columns[name].byteLength, 0)
  }

  /** Adds or drops a copy of D numbers. @param pair - of the flow's addresses (addressPair). */
  add(row: Float64Array, startMicros: number = Number.NaN, pair = 0): void {
    const place = this.#placeFor()
    if (place >= 0) {
      const { rows, numbers, starts, pairs } = this.#columns
      rows.set(row, place * this.#shape.dimension)
      numbers[place] = this.#seen
      starts[place] = startMicros
      pairs[place] = pair
    }
    this.#seen++
  }

  /** Removes rows of flows between these addresses that began in this time. Returns their number. */
  removeFlows(pairs: ReadonlySet<number>, fromMicros: number, toMicros: number): number {
    const columns = this.#columns
    const before = this.#count
    for (let place = before - 1; place >= 0; place--) {
      const isOfTime = columns.starts[place] >= fromMicros && columns.starts[place] <= toMicros
      if (!isOfTime || !pairs.has(columns.pairs[place])) continue
      const last = --this.#count
      for (const name of COLUMNS) {
        const width = widthOf(name, this.#shape.dimension)
        columns[name].copyWithin(place * width, last * width, (last + 1) * width)
      }
    }
    return before - this.#count
  }

  /** The packets' clock was set. */
  clockSet(byMicros: number): void {
    const { starts } = this.#columns
    for (let place = 0; place < this.#count; place++) starts[place] += byMicros
  }

  /** A flow of one packet to this service. */
  addOnePacket(service: string): void {
    this.#onePacketFlows++
    const before = this.#services.get(service)
    if (before !== undefined || this.#services.size < MAXIMUM_SERVICES)
      this.#services.set(service, (before ?? 0) + 1)
  }

  /** n × D, a copy, in the order of arrival. */
  rows(): Matrix {
    const { rows, numbers } = this.#columns
    const { dimension } = this.#shape
    const count = this.#count
    const inOrder = Uint32Array.from({ length: count }, (_, i) => i).sort((a, b) => numbers[a] - numbers[b])
    const out = new Float64Array(count * dimension)
    inOrder.forEach((place, i) => {
      out.set(rows.subarray(place * dimension, (place + 1) * dimension), i * dimension)
    })
    return matrixOf(count, dimension, out)
  }

  onePacketRule(): OnePacketRule {
    return { flows: this.#onePacketFlows, services: [...this.#services.keys()].sort() }
  }

  encode(): Uint8Array {
    const { dimension } = this.#shape
    const count = this.#count
    const columns = columnsOf(dimension, (name, width) => this.#columns[name].slice(0, width * count))
    const kept: Facts = {
      seen: this.#seen,
      onePacketFlows: this.#onePacketFlows,
      services: [...this.#services],
      notes: [...this.notes],
    }
    const facts = JSON.stringify(kept)
    return encodeSafetensors({
      tensors: new Map(
        COLUMNS.map((name) => {
          const shape = name === 'rows' ? [count, dimension] : [count]
          return [name, { dtype: 'F64', shape, data: columns[name] }]
        }),
      ),
      metadata: new Map([
        ['kind', KIND],
        ['facts', facts],
        ['crc32', checksum(columns, facts)],
      ]),
    })
  }

  /** The place of the next row; -1 if the sample does not take it. */
  #placeFor(): number {
    const { capacity, dimension } = this.#shape
    const count = this.#count
    if (count === capacity) {
      const place = this.#rng.fork(String(this.#seen)).nextBelow(this.#seen + 1)
      return place < capacity ? place : -1
    }
    if (count === this.#columns.numbers.length) {
      const places = Math.min(capacity, Math.max(FIRST_ROWS, 2 * count))
      this.#columns = columnsOf(dimension, (name, width) => {
        const grown = new Float64Array(width * places)
        grown.set(this.#columns[name])
        return grown
      })
    }
    return this.#count++
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
  const isOfNumbers = COLUMNS.every((name) => tensors.get(name)?.dtype === 'F64')
  if (metadata.get('kind') !== KIND || rows === undefined || !isOfNumbers) return refuse(`expected ${KIND}`)
  const [count, dimension] = rows.shape
  const columns = columnsOf(dimension, (name) => tensors.get(name)?.data as Float64Array)
  const { numbers, starts, pairs } = columns
  if (dimension !== shape.dimension || [numbers, starts, pairs].some(({ length }) => length !== count)) {
    return refuse(`expected rows of ${shape.dimension} numbers, found ${dimension}`)
  }
  if (count > shape.capacity) return refuse(`expected at most ${shape.capacity} rows, found ${count}`)
  if (metadata.get('crc32') !== checksum(columns, text)) {
    return refuse('the checksum does not match: the file is damaged')
  }
  const facts = JSON.parse(text) as Facts
  if (!(facts.seen >= count) || facts.services.length > MAXIMUM_SERVICES) return refuse('expected counts')
  return new RowReservoir(shape, columns, facts)
}

function checksum(columns: Columns, facts: string): string {
  const sum = COLUMNS.reduce(
    (crc, name) => {
      const { buffer, byteOffset, byteLength } = columns[name]
      return crc32(new Uint8Array(buffer, byteOffset, byteLength), crc)
    },
    crc32(new Uint8Array(0)),
  )
  return String(crc32(new TextEncoder().encode(facts), sum))
}
