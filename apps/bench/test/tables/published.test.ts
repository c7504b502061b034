import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { readPaperFigures, readReferenceAuc } from '../../src/tables/paper-tables.js'
import { sharedPath } from '../support/shared.js'

const records = sharedPath('paper/tables.json')
const text = sharedPath('paper/efficient-ocsvm-iot.tex')
const notes = sharedPath('reference/NOTES.md')
const FEATURES: Record<string, string> = {
  'IAT+SIZE': 'iat-size',
  'STATS+HEADER': 'stats-header',
  SAMP_SIZE: 'samp-size',
}
const METRICS: Record<string, string> = {
  train_time_ms_per_100: 'train-millis-per-100',
  test_time_ms_per_100: 'test-millis-per-100',
  space_kb: 'space-kilobytes',
}

it.skipIf(records === null)('every figure of the paper is there, as it stands in the records of it', () => {
  const { records: all } = JSON.parse(readFileSync(records!, 'utf8')) as {
    records: (Record<
      'table' | 'tuning' | 'features' | 'method' | 'metric' | 'machine' | 'dataset',
      string
    > & {
      mean: number
      std: number
    })[]
  }
  const expected = all
    .filter(({ tuning }) => tuning !== undefined)
    .map((r) => [
      r.table,
      r.tuning,
      FEATURES[r.features],
      r.method.toLowerCase(),
      METRICS[r.metric] ?? r.metric.replaceAll('_', '-'),
      r.machine,
      r.dataset,
      r.mean,
      r.std,
    ])
  const found = readPaperFigures().tables.flatMap(({ label, rows }) =>
    rows.flatMap((row) =>
      Object.entries(row.figures).map(([dataset, [mean, sd]]) => [
        label,
        row.tuning,
        row.features,
        row.detector,
        row.metric,
        row.machine,
        dataset,
        mean,
        sd,
      ]),
    ),
  )
  expect(found).toEqual(expected)
  expect(found.length).toBeGreaterThan(600)
})

it.skipIf(text === null)('every figure of the paper stands in its text', () => {
  const printed = new Set(
    readFileSync(text!, 'utf8')
      .match(/\d+\.\d+/g)
      ?.map(Number),
  )
  for (const { rows } of readPaperFigures().tables) {
    for (const { figures } of rows) {
      for (const [mean] of Object.values(figures)) expect(printed.has(mean), `${mean}`).toBe(true)
    }
  }
})

it.skipIf(notes === null)("the independent implementation's figures are those of its own table", () => {
  const lines = readFileSync(notes!, 'utf8').split('\n')
  for (const { tuning, detector, figures } of readReferenceAuc().rows) {
    const heading = tuning === 'none' ? '### No tuning, q = 0.25' : '### Minimal tuning'
    const section = lines.slice(lines.findIndex((line) => line.startsWith(heading)) + 1)
    const columns = (section.find((line) => line.startsWith('| |')) ?? '')
      .split('|')
      .map((name) => name.trim())
    const plain = detector.replace('-centred', '').toUpperCase().replace('NYSTROM', 'Nystrom')
    // where it has one KJL alone, that is the centred one
    const name = detector === 'oc-kjl-qs' ? `${plain} uncentred` : plain
    const row = (section.find((line) => line.startsWith(`| ${name} |`)) ?? '').split('|')
    for (const [dataset, [mean, sd]] of Object.entries(figures)) {
      const cell = row[columns.indexOf(dataset.replace('-rows', ''))]?.trim()
      const dot = (value: number): string => value.toFixed(3).replace(/^0/, '')
      expect(cell, `${tuning} ${detector} ${dataset}`).toBe(`${dot(mean)}±${dot(sd)}`)
    }
  }
})
