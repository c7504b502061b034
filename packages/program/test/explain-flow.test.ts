/** Reasons are of what is different in a flow, made of packets and told in bytes, packets and times. */
import { createCaptureReader, createPacketBatch, decodePackets, encodePcap } from '@oddflow/capture'
import { createRng, type FlowSummaryContract, matrixOf } from '@oddflow/core'
import type { DetectorOptions, SavedModel } from '@oddflow/detectors'
import { createFlowExtractor } from '@oddflow/flows'
import { describe, expect, it } from 'vitest'
import {
  createFlowExplainer,
  createFlowJudge,
  createPacketMaker,
  type FlowExplanation,
  type MadeEnd,
  type MadeFrame,
  rarityText,
  scoreRarity,
  trainModel,
} from '../src/index.js'

const [SYN, ACK] = [2, 16]
const contract: FlowSummaryContract = {
  featureSet: 'flow-summary',
  featureSetVersion: 1,
  dimension: 20,
  sizeMeasure: 'payload',
  flowKey: 'bidirectional-5-tuple',
  idleTimeoutMicros: 300_000_000,
  activeTimeoutMicros: 300_000_000,
  minimumPackets: 1,
  scaler: 'none',
}

const end = (last: number, port: number): MadeEnd => ({
  address: Uint8Array.of(192, 0, 2, last),
  mac: Uint8Array.of(2, 0, 0, 0, 0, last),
  hopLimit: 64,
  port,
})

interface Exchange {
  readonly port: number
  /** Payload bytes of packets in turn: above 0 of the initiator, below of the responder. */
  readonly sizes: readonly number[]
  readonly gapMicros: number
}

/** Flows one after another, as the rows that an extractor makes of their packets, with their packets' numbers. */
function flowsOf(exchanges: readonly Exchange[], protocol: 'tcp' | 'udp' = 'tcp') {
  const maker = createPacketMaker({ micros: 1_700_000_000_000_000 })
  const frames: MadeFrame[] = []
  exchanges.forEach(({ port, sizes, gapMicros }, i) => {
    const [from, to] = [end(10, 20_000 + i), end(1, port)]
    const send = (a: MadeEnd, b: MadeEnd, bytes: number, flags: number): void => {
      const frame =
        protocol === 'udp'
          ? maker.udp(a, b, bytes)
          : maker.tcp(a, b, { flags, sequence: 0, acknowledgement: 0, bytes, options: 'mss' })
      frames.push({ ...frame, bytes: frame.bytes.slice() })
      maker.clock.micros += gapMicros
    }
    if (protocol === 'tcp') {
      send(from, to, 0, SYN)
      if (sizes.length > 0) send(to, from, 0, SYN | ACK)
    }
    for (const size of sizes) {
      if (size >= 0) send(from, to, size, ACK)
      else send(to, from, -size, ACK)
    }
    maker.clock.micros += 5_000_000
  })
  const flows: { row: Float64Array; packets: number }[] = []
  const row = new Float64Array(contract.dimension)
  const extractor = createFlowExtractor({
    contract,
    row,
    onRecord: (record) => flows.push({ row: row.slice(), packets: record.packets }),
  })
  const reader = createCaptureReader({ batchFrames: 65_536 })
  reader.push(encodePcap(frames))
  for (let batch = reader.read(); batch !== null; batch = reader.read()) {
    const packets = createPacketBatch(batch.count)
    decodePackets(batch, packets)
    extractor.add(packets)
  }
  extractor.finish()
  return flows
}

/** Requests of 300 to 800 bytes with answers of 1 to 3 kB, a packet every 10 ms, to port 443; and to 80 smaller ones. */
function usualExchange(i: number, rng: ReturnType<typeof createRng>): Exchange {
  const size = (low: number, high: number): number => Math.round(low + (high - low) * rng.nextFloat())
  return i % 3 === 0
    ? { port: 80, sizes: [size(80, 120), -size(200, 300)], gapMicros: size(9_000, 11_000) }
    : {
        port: 443,
        sizes: [size(300, 800), -size(1000, 1400), -size(500, 1400)],
        gapMicros: size(9_000, 11_000),
      }
}

function train(options: DetectorOptions): SavedModel {
  const rng = createRng(3)
  const flows = flowsOf(Array.from({ length: 300 }, (_, i) => usualExchange(i, rng)))
  const rows = matrixOf(300, 20, Float64Array.from(flows.flatMap(({ row }) => [...row])))
  const inputOfRow = Uint32Array.from({ length: 300 }, (_, i) => Math.floor(i / 50))
  return trainModel(
    { rows, inputOfRow, contract, onePacketRule: null },
    { detector: options, falsePositiveRate: 0.01, calibrationShare: 0.2, seed: 1, oddflowVersion: '0.0.0' },
  ).saved
}

const ensemble = train({ detector: 'ensemble' })

function explained(
  saved: SavedModel,
  exchange: Exchange,
  changes: { protocol?: 'udp'; viewpoint?: 'responder' } = {},
): FlowExplanation & { readonly novel: boolean } {
  const [flow] = flowsOf([exchange], changes.protocol)
  const { row, judge } = createFlowJudge(saved)
  row.set(flow!.row)
  const { score, novel } = judge({ row } as Parameters<typeof judge>[0])
  const explain = createFlowExplainer(saved)
  const { viewpoint } = changes
  const found = explain({
    ...flow!,
    score: score!,
    threshold: saved.threshold.value,
    ...(viewpoint === undefined ? {} : { viewpoint }),
  })
  return { ...found, novel }
}

const usual: Exchange = { port: 443, sizes: [500, -1200, -900], gapMicros: 10_000 }

describe('reasons of an ensemble', () => {
  it('say what was sent, and how much is usual for the service', () => {
    const { novel, reasons, features } = explained(ensemble, {
      ...usual,
      sizes: [...Array.from({ length: 857 }, () => 1400), -1200, -900],
    })
    expect(novel).toBe(true)
    expect(reasons[0]).toMatch(/^sent (1\.2 MB|857 packets|858 packets) \(usually /)
    expect(reasons.length).toBeLessThanOrEqual(3)
    expect(features[0]!.gain).toBeGreaterThanOrEqual(features.at(-1)!.gain)
    // whichever column tells most
    const many = explained(ensemble, { ...usual, sizes: Array.from({ length: 75 }, () => -1300) })
    expect(many.nearestBytes?.responder).toBeGreaterThanOrEqual(200)
    expect(many.nearestBytes?.responder).toBeLessThanOrEqual(2800)
    expect(many.nearestBytes?.initiator).toBeLessThanOrEqual(800)
    const bytes = explained(ensemble, { ...usual, sizes: [1400, 1400, -1200, -900] })
    expect(bytes.reasons.join('; ')).toMatch(
      /sent packets of (up to 1\.4 kB|933 B on average) \(usually (under|at most) \d{3} B\)/,
    )
  })

  it('say how long the flow lasted, and how it paused', () => {
    const { novel, reasons } = explained(ensemble, { ...usual, gapMicros: 50_000_000 })
    expect(novel).toBe(true)
    expect(reasons.join('; ')).toMatch(/lasted 3\.3 min \(usually under 4\d ms\)/)
    expect(reasons.join('; ')).toMatch(
      /(paused for up to|had a packet every|had its second packet after) 50 s/,
    )
  })

  it('name a service that training did not have', () => {
    const { novel, reasons, features } = explained(ensemble, { ...usual, port: 23 })
    expect(novel).toBe(true)
    expect(reasons).toContain('never saw this service (TCP port 23)')
    expect(features.find(({ name }) => name === 'service')).toMatchObject({
      value: 600_023,
      nearest: null,
      unit: '',
    })
    const high = explained(ensemble, { ...usual, port: 40_000 }, { protocol: 'udp' })
    expect(high.reasons.join()).not.toMatch(/UDP \(normal/)
    expect(high.reasons).toContain('never saw this service (UDP port 32768 or higher)')
    expect(explained(ensemble, { ...usual, port: 80 }).reasons.join()).not.toMatch(/service/)
  })

  it('name it among three, however much else there is', () => {
    const sizes = [...Array.from({ length: 200 }, () => 1400), ...Array.from({ length: 200 }, () => -1400)]
    const { reasons } = explained(ensemble, { port: 2323, sizes, gapMicros: 1_000_000 })
    expect(reasons).toHaveLength(3)
    expect(reasons).toContain('never saw this service (TCP port 2323)')
  })

  it('tell an end that sent nothing, and a single packet, as that', () => {
    const { reasons } = explained(ensemble, { port: 443, sizes: [], gapMicros: 10_000 })
    const text = reasons.join('; ')
    expect(text).toMatch(/received nothing \(usually 3 packets\)|was a single packet \(usually more\)/)
    expect(text).not.toMatch(/lasted|paused|received no data/)
  })

  it('are from the sight of the end that is asked for', () => {
    const much = { ...usual, sizes: [500, ...Array.from({ length: 500 }, () => -1400)] }
    const initiator = explained(ensemble, much).reasons
    const responder = explained(ensemble, much, { viewpoint: 'responder' }).reasons
    expect(initiator[0]).toMatch(/^received /)
    expect(responder).toEqual(initiator.map((text) => text.replace('received', 'sent')))
  })

  it('are of columns that make most of the score, which they add up to', () => {
    const rng = createRng(9)
    for (let i = 0; i < 20; i++) {
      const exchange = usualExchange(i, rng)
      const changed = {
        ...exchange,
        sizes: exchange.sizes.map((x) => x * (1 + (i % 4))),
        gapMicros: 10_000 * 3 ** (i % 6),
      }
      const { features, reasons } = explained(ensemble, changed)
      expect(features.length).toBeGreaterThan(0)
      expect(reasons.length).toBe(Math.min(3, features.length))
      expect(new Set(reasons).size).toBe(reasons.length)
      const [flow] = flowsOf([changed])
      const { row, judge } = createFlowJudge(ensemble)
      row.set(flow!.row)
      const { score } = judge({ row } as Parameters<typeof judge>[0])
      const sum = features.reduce((nats, { gain }) => nats + gain, 0)
      expect(sum).toBeLessThanOrEqual(-score! * (1 + 1e-9))
      expect(sum).toBeGreaterThan(-0.3 * score!)
    }
  })
})

describe('reasons of other detectors', () => {
  it.each(['nearest', 'oc-kjl-qs', 'ocsvm'] as const)(
    '%s: told beside the nearest normal flow',
    (detector) => {
      const saved = train({ detector })
      const { reasons } = explained(saved, {
        ...usual,
        sizes: [...Array.from({ length: 857 }, () => 1400), -1200],
      })
      expect(reasons[0]).toMatch(/^[a-z].* \(normal: .*\)$/)
      expect(reasons.join('; ')).toMatch(/sent|received/)
      expect(reasons.join('; ')).not.toMatch(/log1p|initiator|usually/)
    },
  )

  it('a forest has none to give, and says so', () => {
    const saved = train({ detector: 'iforest', trees: 10 })
    expect(explained(saved, { ...usual, port: 23 })).toMatchObject({
      reason: 'no-comparison',
      reasons: [],
      nearestBytes: null,
    })
  })
})

it('an ensemble of bare rows tells columns by number, with the range of training', () => {
  const rng = createRng(5)
  const rows = matrixOf(
    200,
    4,
    Float64Array.from({ length: 800 }, () => 10 + rng.nextNormal()),
  )
  const { saved } = trainModel(
    {
      rows,
      inputOfRow: Uint32Array.from({ length: 200 }, (_, i) => i % 5),
      contract: { featureSet: 'rows', featureSetVersion: 1, dimension: 4, scaler: 'none' },
      onePacketRule: null,
    },
    {
      detector: { detector: 'ensemble' },
      falsePositiveRate: 0.01,
      calibrationShare: 0.2,
      seed: 1,
      oddflowVersion: '0.0.0',
    },
  )
  const row = Float64Array.of(10, 10, 40.25, 10)
  const { reasons } = createFlowExplainer(saved)({ row, score: -60, threshold: -9, packets: null })
  expect(reasons).toEqual([expect.stringMatching(/^x3 40 \(usually under 1[234]\)$/)])
})

describe('rarity', () => {
  const { rows } = ensemble.threshold.calibration

  it('is that of the lowest among training flows for what is lower than all, and grows with the score', () => {
    expect(scoreRarity(ensemble, -1e6)).toEqual({ atMost: 1 / (rows + 1), flows: rows })
    let before = 0
    for (let score = -40; score <= 0; score += 0.5) {
      const { atMost } = scoreRarity(ensemble, score)
      expect(atMost).toBeGreaterThanOrEqual(before)
      expect(atMost).toBeLessThanOrEqual(1)
      before = atMost
    }
  })

  it('is what the threshold promises for a model that keeps no scores', () => {
    const saved = train({ detector: 'nearest' })
    const { bound, rows: flows } = saved.threshold.calibration
    expect(scoreRarity(saved, -1e6)).toEqual({ atMost: bound, flows })
  })

  it('is one flow in N, rounded towards less rare', () => {
    expect(rarityText({ atMost: 1 / 10_001, flows: 10_000 })).toBe('rarer than 1 flow in 10,000')
    expect(rarityText({ atMost: 1 / 1697, flows: 1696 })).toBe('rarer than 1 flow in 1,600')
    expect(rarityText({ atMost: 0.0094, flows: 1696 })).toBe('rarer than 1 flow in 100')
    expect(rarityText({ atMost: 0.2, flows: 9 })).toBeNull()
    expect(rarityText({ atMost: 1, flows: 0 })).toBeNull()
  })
})
