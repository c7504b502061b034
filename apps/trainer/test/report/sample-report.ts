/**
 * Made-up report data for tests: shaped like an evaluation of a small home network, drawn from a seeded
 * generator, and in no way a measurement. Addresses are from the documentation ranges (RFC 5737, RFC 3849).
 */

import type { FlaggedFlow, ReportData } from '../../src/report/index.js'

export interface SampleSize {
  normal: number
  novel: number
}

export function sampleReport(size: SampleSize = { normal: 412, novel: 100 }, seed = 1): ReportData {
  const random = lehmer(seed)
  const gauss = (): number => {
    let sum = -6
    for (let i = 0; i < 12; i++) sum += random()
    return sum
  }
  const components = [
    { mean: [-0.31, 0.12], sd: [0.04, 0.02], weight: 0.45 },
    { mean: [0.05, -0.2], sd: [0.07, 0.05], weight: 0.3 },
    { mean: [0.28, 0.22], sd: [0.03, 0.06], weight: 0.2 },
    { mean: [0.1, 0.02], sd: [0.015, 0.015], weight: 0.05 },
  ] as const
  const points: { x: number; y: number; group: 'normal' | 'novel' }[] = []
  const normal: number[] = []
  const novel: number[] = []
  for (let i = 0; i < size.normal; i++) {
    const c = components[i % 20 < 9 ? 0 : i % 20 < 15 ? 1 : i % 20 < 19 ? 2 : 3]!
    points.push({ x: c.mean[0] + c.sd[0] * gauss(), y: c.mean[1] + c.sd[1] * gauss(), group: 'normal' })
    normal.push(14 + 2.5 * gauss() - (random() < 0.02 ? 40 * random() : 0))
  }
  for (let i = 0; i < size.novel; i++) {
    const far = random()
    points.push({ x: 0.35 * gauss() * (far < 0.03 ? 40 : 1), y: 0.3 + 0.25 * gauss(), group: 'novel' })
    novel.push(far < 0.15 ? 12 + 3 * gauss() : 5 - 10 ** (5 * random()))
  }
  const threshold = [...normal].sort((a, b) => a - b)[Math.floor(size.normal * 0.01)] ?? 0
  const roc = rocOf(normal, novel)
  const rates = (t: number) => ({
    fpr: normal.filter((s) => s <= t).length / normal.length,
    tpr: novel.filter((s) => s <= t).length / novel.length,
  })
  const onePacket = 24
  const rows: FlaggedFlow[] = []
  const scored = [
    ...novel.map((score) => ({ score, label: 'novel' as const })),
    ...normal.map((score) => ({ score, label: 'normal' as const })),
  ]
  for (const { score, label } of scored.filter((f) => f.score <= threshold)) {
    const i = rows.length
    const v6 = i % 9 === 4
    rows.push({
      source: v6
        ? `[2001:db8:0:17:c0ff:ee00:1234:${(i % 4096).toString(16)}]:49152`
        : `192.0.2.${i % 200}:${40000 + i}`,
      destination: v6 ? '[2001:db8::53]:53' : `198.51.100.${i % 17}:${[22, 80, 443, 1883, 8883][i % 5]}`,
      protocol: v6 ? 'UDP' : 'TCP',
      startMicros: 1_767_225_600_000_000 + i * 1_234_567,
      durationMicros: Math.floor(10 ** (8 * random())),
      packets: 2 + Math.floor(400 * random()),
      bytes: Math.floor(10 ** (2 + 5 * random())),
      score,
      rule: 'score',
      capture: label === 'novel' ? 'brute-force-login.pcap' : 'sensors-day-2.pcap',
      label,
      device: null,
      reasons: [],
    })
  }
  for (let i = 0; i < onePacket; i++)
    rows.push({
      source: '203.0.113.9:51324',
      destination: `192.0.2.4:${1000 + 7 * i}`,
      protocol: 'TCP',
      startMicros: null,
      durationMicros: 0,
      packets: 1,
      bytes: 58,
      score: null,
      rule: 'one-packet',
      capture: 'port-scan.pcap',
      label: 'novel',
      device: null,
      reasons: [],
    })
  const flows = size.normal + size.novel + onePacket
  const falseAlarms = Math.round(rates(threshold).fpr * size.normal)
  return {
    title: 'Sample evaluation (test data)',
    subtitle: 'Trained on sensors-day-1.pcap; scored 3 captures',
    oddflowVersion: '0.0.0-test',
    verdictLine: `OddFlow flagged ${rows.length} of ${flows} flows as new.`,
    model: [
      { label: 'Detector', value: 'oc-kjl-qs' },
      { label: 'Bandwidth', value: '0.4312 (quantile 0.3 of pair distances)' },
      { label: 'Dimensions', value: '23 features → 5' },
      { label: 'Training rows', value: '1,024' },
      {
        label: 'Threshold',
        value: `${threshold.toFixed(4)}, from 256 rows not used to fit, for 1 % false positives`,
      },
    ],
    captures: [
      {
        name: 'sensors-day-2.pcap',
        label: 'normal',
        packets: 48_231,
        flows: size.normal,
        onePacketFlows: 0,
        flagged: falseAlarms,
      },
      {
        name: 'brute-force-login.pcap',
        label: 'novel',
        packets: 9120,
        flows: size.novel,
        onePacketFlows: 0,
        flagged: rows.length - falseAlarms - onePacket,
      },
      {
        name: 'port-scan.pcap',
        label: 'novel',
        packets: 48,
        flows: onePacket,
        onePacketFlows: onePacket,
        flagged: onePacket,
      },
    ],
    roc: {
      ...roc,
      tprAtFpr: [0.01, 0.05].map((fpr) => ({
        fpr,
        tpr: Math.max(0, ...roc.tpr.filter((_, i) => roc.fpr[i]! <= fpr)),
      })),
      threshold: rates(threshold),
    },
    scores: { normal, novel, threshold },
    flagged: { rows, total: rows.length, ofDevice: {} },
    embedding: {
      points,
      ellipses: components.map((c) => ({
        mean: [c.mean[0], c.mean[1]],
        covariance: [c.sd[0] ** 2, 0.4 * c.sd[0] * c.sd[1], c.sd[1] ** 2],
        weight: c.weight,
      })),
      dimensions: 5,
    },
    notes: [
      'These numbers were made up to test the page.',
      'The threshold was set for 1 % false positives; on other traffic the rate will differ.',
    ],
  }
}

function rocOf(
  normal: readonly number[],
  novel: readonly number[],
): { fpr: number[]; tpr: number[]; auc: number } {
  const all = [...normal.map((s) => ({ s, novel: 0 })), ...novel.map((s) => ({ s, novel: 1 }))].sort(
    (a, b) => a.s - b.s,
  )
  const fpr = [0]
  const tpr = [0]
  let auc = 0
  for (const { novel: isNovel } of all) {
    const f = fpr[fpr.length - 1]! + (1 - isNovel) / normal.length
    const t = tpr[tpr.length - 1]! + isNovel / novel.length
    auc += (1 - isNovel) * (t / normal.length)
    fpr.push(Math.min(f, 1))
    tpr.push(Math.min(t, 1))
  }
  return { fpr, tpr, auc }
}

function lehmer(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 48271) % 2147483647
    return state / 2147483647
  }
}
