/** Limits of models whose limits are known, and predictions beside the lab's real attacks. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import {
  compileFilter,
  createCaptureReader,
  createPacketBatch,
  decodePackets,
  encodePcap,
  type PacketBatch,
} from '@oddflow/capture'
import { concatRows, createRng, type FlowContract, type Matrix } from '@oddflow/core'
import type { DetectorOptions, SavedModel } from '@oddflow/detectors'
import {
  createFlowCollector,
  createFlowExtractor,
  extractMatrix,
  type FlowRecord,
  learnFeatureContract,
  learnOnePacketRule,
} from '@oddflow/flows'
import { describe, expect, it } from 'vitest'
import {
  createFlowJudge,
  createPacketMaker,
  DEFAULT_SITE,
  type DetectionLimit,
  findDetectionLimits,
  LIMIT_TRIES,
  MADE_ATTACKS,
  type MadeAttackName,
  type MadeFrame,
  REQUIRED_TRIES,
  trainModel,
} from '../src/index.js'

const lab = join(import.meta.dirname, '../../../test/fixtures/lab')
const attackNamed = (name: MadeAttackName) => MADE_ATTACKS.find((attack) => attack.name === name)!

/** Batches of a capture, with the filter's packets alone. */
function batchesOf(bytes: Uint8Array, keep: (packets: PacketBatch, i: number) => boolean): PacketBatch[] {
  const reader = createCaptureReader({ batchFrames: 65_536 })
  reader.push(bytes)
  const batches: PacketBatch[] = []
  for (let frames = reader.read(); frames !== null; frames = reader.read()) {
    const packets = createPacketBatch(frames.count)
    decodePackets(frames, packets)
    for (let i = 0; i < packets.count; i++) if (!keep(packets, i)) packets.status[i] = OTHER
    batches.push(packets)
  }
  return batches
}

/** Any status that is no flow's. */
const OTHER = 1

function labCapture(name: string, filter = ''): PacketBatch[] {
  const bytes = readFileSync(join(lab, name))
  const test = filter === '' ? null : compileFilter(filter)
  return batchesOf(
    name.endsWith('.gz') ? gunzipSync(bytes) : bytes,
    (packets, i) => test?.(packets, i) ?? true,
  )
}

function train(
  captures: readonly PacketBatch[][],
  detector: DetectorOptions,
  featureSet: FlowContract['featureSet'],
): SavedModel {
  const collector = createFlowCollector(
    featureSet === 'flow-summary' ? { sizeMeasure: 'payload', endOnClose: true } : {},
  )
  for (const batches of captures) {
    for (const batch of batches) collector.add(batch)
    collector.endCapture()
  }
  const flows = collector.finish()
  const contract = learnFeatureContract(flows, { featureSet })
  const rows = extractMatrix(flows, contract)
  const onePacketRule = contract.featureSet === 'flow-summary' ? null : learnOnePacketRule(flows)
  return trainModel(
    { rows, inputOfRow: new Uint32Array(rows.rows), contract, onePacketRule },
    { detector, falsePositiveRate: 0.01, calibrationShare: 0.2, seed: 1, oddflowVersion: '0.0.0' },
  ).saved
}

function judged(saved: SavedModel, batches: readonly PacketBatch[]): { flows: number; novel: number } {
  const { contract, row, judge } = createFlowJudge(saved)
  const counts = { flows: 0, novel: 0 }
  const onRecord = (record: FlowRecord): void => {
    counts.flows++
    if (judge(record).novel) counts.novel++
  }
  const extractor = createFlowExtractor({ contract, row, onRecord })
  for (const batch of batches) extractor.add(batch)
  extractor.finish()
  return counts
}

const normalCaptures = ['normal-1.pcap', 'normal-2.pcapng', 'normal-3.pcap.gz', 'normal-4.pcap.gz']
const trainOnLab = (detector: DetectorOptions, featureSet: FlowContract['featureSet']): SavedModel =>
  train(
    normalCaptures.map((name) => labCapture(name)),
    detector,
    featureSet,
  )
const summaries = trainOnLab({ detector: 'oc-kjl-qs' }, 'flow-summary')

/** Frames of synthetic attacks one after another, as a capture. */
function captureOf(
  ...attacks: readonly { readonly name: MadeAttackName; readonly size: number }[]
): Uint8Array {
  const clock = { micros: 1_700_000_000_000_000 }
  const maker = createPacketMaker(clock)
  const frames: MadeFrame[] = []
  attacks.forEach(({ name, size }, i) => {
    for (const frame of attackNamed(name).frames(size, DEFAULT_SITE, createRng(i), maker)) {
      frames.push({ ...frame, bytes: frame.bytes.slice() })
    }
    clock.micros += 1_000_000
  })
  return encodePcap(frames)
}

const uploadLimitOf = (saved: SavedModel): DetectionLimit =>
  findDetectionLimits(saved).limits.find(({ attack }) => attack.name === 'upload')!

describe('findDetectionLimits', () => {
  it('finds the limit of a model that knows uploads up to a size', () => {
    const uploadsUpTo = (most: number): SavedModel => {
      const sizes = Array.from({ length: 60 }, (_, i) => Math.round(100 * (most / 100) ** ((i % 50) / 49)))
      const capture = captureOf(...sizes.map((size) => ({ name: 'upload' as const, size })))
      return train([batchesOf(capture, () => true)], { detector: 'nearest', m: 40 }, 'flow-summary')
    }
    const limitOf = (saved: SavedModel): number | null => uploadLimitOf(saved).smallest
    const small = limitOf(uploadsUpTo(10_000))
    expect(small).toBeGreaterThan(10_000)
    expect(small).toBeLessThan(100_000)
    const large = limitOf(uploadsUpTo(1_000_000))
    expect(large).toBeGreaterThan(1_000_000)
    expect(limitOf(uploadsUpTo(10_000_000))).toBeNull()
  })

  it('holds through a capture file, and is the same for the same seed', () => {
    const found = findDetectionLimits(summaries)
    const { limits, site } = found
    expect(findDetectionLimits(summaries)).toEqual(found)
    expect(limits.map(({ attack }) => attack.name)).toEqual(MADE_ATTACKS.map(({ name }) => name))
    for (const { attack, smallest } of limits) {
      if (smallest === null) continue
      let flagged = 0
      for (let turn = 0; turn < LIMIT_TRIES; turn++) {
        const rng = createRng(1).fork('detection limits').fork(`${attack.name} ${turn}`)
        const maker = createPacketMaker({ micros: 1_767_225_600_000_000 })
        const frames = Array.from(attack.frames(smallest, site!, rng, maker), (frame) => ({
          ...frame,
          bytes: frame.bytes.slice(),
        }))
        if (
          judged(
            summaries,
            batchesOf(encodePcap(frames), () => true),
          ).novel > 0
        )
          flagged++
      }
      expect(flagged).toBeGreaterThanOrEqual(REQUIRED_TRIES)
    }
  })

  it('uploads over a connection that is normal to the model, where there is one', () => {
    expect(uploadLimitOf(summaries).smallest).toBeGreaterThan(attackNamed('upload').lowest)
  })

  it('shows models that flag everything or nothing', () => {
    const at = (value: number): SavedModel => ({ ...summaries, threshold: { ...summaries.threshold, value } })
    const all = findDetectionLimits(at(Number.MAX_VALUE))
    expect(all.remembered).toEqual({ rows: 100, flagged: 100 })
    expect(all.limits.map(({ smallest }) => smallest)).toEqual(MADE_ATTACKS.map(({ lowest }) => lowest))
    const nothing = findDetectionLimits(at(-Number.MAX_VALUE))
    expect(nothing.remembered).toEqual({ rows: 100, flagged: 0 })
    expect(nothing.limits.map(({ smallest }) => smallest)).toEqual(MADE_ATTACKS.map(() => null))
  })

  it('has no limits for a model of bare rows', () => {
    const rng = createRng(1)
    const rows: Matrix = {
      rows: 100,
      cols: 2,
      data: Float64Array.from({ length: 200 }, () => rng.nextNormal()),
    }
    const contract = { featureSet: 'rows', featureSetVersion: 1, dimension: 2, scaler: 'none' } as const
    const { saved } = trainModel(
      { rows: concatRows([rows]), inputOfRow: new Uint32Array(100), contract, onePacketRule: null },
      {
        detector: { detector: 'iforest' },
        falsePositiveRate: 0.01,
        calibrationShare: 0.2,
        seed: 1,
        oddflowVersion: '0.0.0',
      },
    )
    expect(findDetectionLimits(saved)).toEqual({
      limits: [],
      site: null,
      remembered: null,
      flagsFarRows: true,
    })
    const blind = { ...saved, threshold: { ...saved.threshold, value: -Number.MAX_VALUE } }
    expect(findDetectionLimits(blind).flagsFarRows).toBe(false)
  })
})

/** What the lab's attacks were, in the synthetic attacks' sizes (tools/traffic-lab/novelties.sh); no synthetic attack publishes. */
const LAB_ATTACKS: readonly (readonly [MadeAttackName, number, string, string?])[] = [
  ['port-scan', 100, 'novel-scan.pcap'],
  ['password-guessing', 40, 'novel-bruteforce.pcap.gz', 'host 192.168.50.10'],
  ['download', 94_000, 'novel-firmware.pcap', 'host 192.168.50.22'],
  ['download', 4_000, 'novel-firmware.pcap', 'host 192.168.50.23'],
  ['dns-tunnel', 100, 'novel-dnstunnel.pcap.gz'],
]

describe('predictions beside real attacks', () => {
  const labels = JSON.parse(readFileSync(join(lab, 'labels.json'), 'utf8')) as {
    captures: { file: string; novelWhen?: string }[]
  }
  const models: readonly (readonly [string, SavedModel])[] = [
    ['oc-kjl-qs on flow summaries', summaries],
    ['nearest on flow summaries', trainOnLab({ detector: 'nearest' }, 'flow-summary')],
    ['ensemble on flow summaries', trainOnLab({ detector: 'ensemble' }, 'flow-summary')],
    ['gmm on flow summaries', trainOnLab({ detector: 'gmm' }, 'flow-summary')],
    ['oc-kjl-qs on IAT+SIZE', trainOnLab({ detector: 'oc-kjl-qs' }, 'iat-size')],
  ]
  it.each(models)('%s: what is said to be visible is found', (_, saved) => {
    const { limits } = findDetectionLimits(saved)
    let predicted = 0
    for (const [name, size, file, only] of LAB_ATTACKS) {
      const { smallest } = limits.find(({ attack }) => attack.name === name)!
      if (smallest === null || smallest > size) continue
      predicted++
      const filter = labels.captures.find((capture) => capture.file === file)!.novelWhen!
      const novelPackets = only === undefined ? filter : `${filter} and ${only}`
      const { flows, novel } = judged(saved, labCapture(file, novelPackets))
      expect({ file, found: novel / flows > 0.2, novel, flows }).toMatchObject({ file, found: true })
    }
    expect(predicted).toBeGreaterThan(2)
  })
})
