import type { Trial } from '../../src/run/trial.js'

export function sampleTrial(changes: Partial<Trial> = {}): Trial {
  return {
    formatVersion: 1,
    dataset: 'ctu-rows',
    dataSha256: 'a'.repeat(64),
    features: 'iat-size',
    dimension: 23,
    detector: 'oc-kjl-qs',
    tuning: 'none',
    repeat: 0,
    seed: 1,
    trainRows: 5000,
    validationAuc: null,
    parameters: { bandwidthQuantile: 0.25 },
    results: [
      { sample: 'all', normal: 2500, novel: 2500, auc: 0.64, aucVariance: 0.0001, averagePrecision: 0.6 },
      { sample: 'protocol', normal: 300, novel: 300, auc: 0.63, aucVariance: 0.0004, averagePrecision: 0.6 },
    ],
    trainMillis: 1000,
    tuneMillis: null,
    testRows: 600,
    testMillis: [3, 5],
    spaceNumbers: 3110,
    machine: {
      name: 'server',
      cpu: 'Some CPU',
      logicalCpus: 2,
      memoryBytes: 8e9,
      operatingSystem: 'Linux',
      architecture: 'x64',
      concurrency: 1,
    },
    loadAverage: 0.1,
    versions: { node: '20.20.2' },
    ...changes,
  }
}
