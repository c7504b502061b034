/**
 * RowReservoir: what an owner of a model has shown so far: a uniform sample of its feature rows, in the order in
 * which they came, and the services of its flows of one packet. Bounded, and whole again after a restart.
 *
 * Vitter, "Random sampling with a reservoir" (ACM TOMS 11, 1985), Algorithm R. Chance is a function of the seed and
 * the row's number alone, so a reservoir that was written and read goes on as if nothing had been. Places grow by
 * doubling up to `capacity`. A row is D float64 numbers and the number of its arrival: 8(D + 1) bytes.
 *
 * Written as safetensors with a checksum: damage is found, and a damaged file is no reservoir.
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

export interface RowReservoir {
  /** Takes D numbers, which are copied or let go. */
  add(row: Float64Array): void
  /** Takes out a row that is equal, where there is one: as if it had never come, but for `seen`. */
  remove(row: Float64Array): void
  /** A flow of one packet to this service. */
  addOnePacket(service: string): void
  /** n × D, a copy, in the order of their coming. */
  rows(): Matrix
  onePacketRule(): OnePacketRule
  /** n. */
  readonly count: number
  /** Rows that it is a sample of. */
  readonly seen: number
  /** That its rows take now. */
  readonly bytes: number
  /** Numbers that are kept with it, and stay with it in a file. */
  readonly notes: Map<string, number>
  encode(): Uint8Array
}

export interface ReservoirShape {
  /** D. */
  readonly dimension: number
  readonly capacity: number
  readonly seed: number
}

const FIRST_ROWS = 32
const KIND = 'oddflow-rows'

/** Bytes that a reservoir's rows take at most. */
export function reservoirBytes({
  dimension,
  capacity,
}: Pick<ReservoirShape, 'dimension' | 'capacity'>): number {
  return 8 * (dimension + 1) * capacity
}

export function createRowReservoir(shape: ReservoirShape): RowReservoir {
  return reservoirOf(shape, {
    count: 0,
    seen: 0,
    rows: new Float64Array(0),
    numbers: new Float64Array(0),
    onePacketFlows: 0,
    services: new Map(),
    notes: new Map(),
  })
}

interface Contents {
  count: number
  seen: number
  rows: Float64Array
  numbers: Float64Array
  onePacketFlows: number
  readonly services: Map<string, number>
  readonly notes: Map<string, number>
}

function reservoirOf({ dimension, capacity, seed }: ReservoirShape, contents: Contents): RowReservoir {
  const rng = createRng(seed)
  const placeFor = (): number => {
    if (contents.count < capacity) return contents.count++
    const place = rng.fork(String(contents.seen)).nextBelow(contents.seen + 1)
    return place < capacity ? place : -1
  }
  const makeRoom = (): void => {
    const places = contents.numbers.length
    if (contents.count < places || places === capacity) return
    const more = Math.min(capacity, Math.max(FIRST_ROWS, 2 * places))
    const rows = new Float64Array(more * dimension)
    rows.set(contents.rows)
    contents.rows = rows
    const numbers = new Float64Array(more)
    numbers.set(contents.numbers)
    contents.numbers = numbers
  }
  const inOrder = (): Uint32Array =>
    Uint32Array.from({ length: contents.count }, (_, i) => i).sort(
      (a, b) => contents.numbers[a] - contents.numbers[b],
    )
  return {
    add(row) {
      makeRoom()
      const place = placeFor()
      if (place >= 0) {
        contents.rows.set(row, place * dimension)
        contents.numbers[place] = contents.seen
      }
      contents.seen++
    },
    remove(row) {
      const { rows, numbers } = contents
      for (let place = 0; place < contents.count; place++) {
        if (!row.every((value, i) => Object.is(value, rows[place * dimension + i]))) continue
        contents.count--
        rows.copyWithin(place * dimension, contents.count * dimension, (contents.count + 1) * dimension)
        numbers[place] = numbers[contents.count]
        return
      }
    },
    addOnePacket(service) {
      contents.onePacketFlows++
      const { services } = contents
      const before = services.get(service)
      if (before !== undefined || services.size < MAXIMUM_SERVICES) services.set(service, (before ?? 0) + 1)
    },
    rows() {
      const out = new Float64Array(contents.count * dimension)
      inOrder().forEach((place, i) => {
        out.set(contents.rows.subarray(place * dimension, (place + 1) * dimension), i * dimension)
      })
      return matrixOf(contents.count, dimension, out)
    },
    onePacketRule: () => ({
      flows: contents.onePacketFlows,
      services: [...contents.services.keys()].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0)),
    }),
    get count() {
      return contents.count
    },
    get seen() {
      return contents.seen
    },
    get bytes() {
      return contents.rows.byteLength + contents.numbers.byteLength
    },
    notes: contents.notes,
    encode() {
      const { count, seen, onePacketFlows, services, notes } = contents
      const rows = contents.rows.slice(0, count * dimension)
      const numbers = contents.numbers.slice(0, count)
      const facts = JSON.stringify({ seen, onePacketFlows, services: [...services], notes: [...notes] })
      return encodeSafetensors({
        tensors: new Map([
          ['rows', { dtype: 'F64', shape: [count, dimension], data: rows }],
          ['numbers', { dtype: 'F64', shape: [count], data: numbers }],
        ]),
        metadata: new Map([
          ['kind', KIND],
          ['facts', facts],
          ['crc32', String(checksum(rows, numbers, facts))],
        ]),
      })
    },
  }
}

/** Throws FormatError for what is damaged, of another width, or of more rows than there is room for. */
export function decodeRowReservoir(bytes: Uint8Array, shape: ReservoirShape): RowReservoir {
  const refuse = (message: string): never => {
    throw new FormatError('rows', message)
  }
  const { tensors, metadata } = decodeSafetensors(bytes)
  const rows = tensors.get('rows')
  const numbers = tensors.get('numbers')
  const text = metadata.get('facts') ?? ''
  if (metadata.get('kind') !== KIND || rows?.dtype !== 'F64' || numbers?.dtype !== 'F64') {
    return refuse(`expected ${KIND}`)
  }
  const [count, dimension] = rows.shape
  if (dimension !== shape.dimension || numbers.shape[0] !== count) {
    return refuse(`expected rows of ${shape.dimension} numbers, found ${dimension}`)
  }
  if (count > shape.capacity) return refuse(`expected at most ${shape.capacity} rows, found ${count}`)
  if (metadata.get('crc32') !== String(checksum(rows.data, numbers.data, text))) {
    return refuse('the checksum does not match: the file is damaged')
  }
  const facts = JSON.parse(text) as {
    seen: number
    onePacketFlows: number
    services: [string, number][]
    notes: [string, number][]
  }
  if (!(facts.seen >= count) || facts.services.length > MAXIMUM_SERVICES) return refuse('expected counts')
  return reservoirOf(shape, {
    count,
    seen: facts.seen,
    rows: rows.data,
    numbers: numbers.data,
    onePacketFlows: facts.onePacketFlows,
    services: new Map(facts.services),
    notes: new Map(facts.notes),
  })
}

function checksum(rows: Float64Array, numbers: Float64Array, facts: string): number {
  const bytes = (data: Float64Array): Uint8Array =>
    new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
  return crc32(new TextEncoder().encode(facts), crc32(bytes(numbers), crc32(bytes(rows))))
}
