import type { Trial } from '../src/index.js'

export const sampleTrial: Trial = {
  formatVersion: 1,
  dataset: 'ctu-rows',
  dataSha256: 'a'.repeat(64),
  features: 'iat-size',
  dimension: 23,
  detector: 'oc-kjl-qs',
  tuning: 'minimal',
  repeat: 0,
  seed: 1,
  trainRows: 5000,
  validationAuc: 0.75,
  parameters: {
    detector: 'oc-kjl-qs',
    bandwidthQuantile: 0.3,
    embedding: { kind: 'kjl', centre: false },
    start: { kind: 'quickshift++', neighbours: null },
  },
  results: [
    { sample: 'all', normal: 2500, novel: 2500, auc: 0.64, aucVariance: 0.0001, averagePrecision: 0.61 },
    { sample: 'protocol', normal: 300, novel: 300, auc: 0.63, aucVariance: null, averagePrecision: 0.6 },
  ],
  trainMillis: 1250.5,
  tuneMillis: 12000,
  testRows: 600,
  testMillis: [3, 3.5],
  spaceNumbers: 3420,
  machine: {
    name: 'server',
    cpu: 'Some CPU @ 2.00 GHz',
    logicalCpus: 2,
    memoryBytes: 8_000_000_000,
    operatingSystem: 'linux',
    architecture: 'x64',
    concurrency: 1,
  },
  loadAverage: 0.5,
  versions: { oddflow: '0.0.0', node: '20.20.2' },
}

export const trialWith = (changes: Partial<Trial>): Trial => ({ ...sampleTrial, ...changes })
