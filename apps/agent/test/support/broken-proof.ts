/** What is told of a model whose proof is broken, and whose next training was refused. */
import type { ScopeReport } from '../../src/models/progress.js'

export const brokenProof = {
  state: 'trained',
  previous: null,
  rows: 1000,
  rowsNeeded: 20,
  modelRows: 596,
  falseAlarmShare: 0.098,
  keepsPromise: false,
  proving: { state: 'broken', flows: 896, needed: 20, novel: 398 },
  refused: { rows: 1000, unsettledShare: 0.365 },
  damage: null,
} as const satisfies Partial<ScopeReport>
