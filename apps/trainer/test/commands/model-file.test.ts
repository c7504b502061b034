import { modelSpaceNumbers } from '@oddflow/detectors'
import { describe, expect, it } from 'vitest'
import { describeModel, modelFacts, modelJson, percent } from '../../src/commands/model-file.js'
import { smallModel } from '../small-model.js'

const factOf = (saved: Parameters<typeof modelFacts>[0], label: string): string | undefined =>
  modelFacts(saved).find((fact) => fact.label === label)?.value

describe('modelFacts', () => {
  const { saved, split } = smallModel()

  it('say what was asked for and what came of it', () => {
    expect(factOf(saved, 'detector')).toBe('oc-kjl')
    expect(factOf(saved, 'embedding')).toBe('20 landmarks, 2 dimensions')
    expect(factOf(saved, 'trained on')).toBe(
      `${split.fit.length} of 120 rows of D = 3 numbers; ${split.calibration.length} others set the threshold`,
    )
    expect(factOf(saved, 'mixture')).toMatch(/^2 Gaussians \(started by k-means\+\+\), \d+ EM steps?/)
    expect(factOf(saved, 'flows')).toBe('bidirectional; idle timeout 600 s; split at 2.5 s')
  })

  it('count the space of a scorer: at least the m(d + D) + k(1 + d + d²) numbers of the paper', () => {
    const numbers = modelSpaceNumbers(saved.detector)
    expect(numbers).toBeGreaterThanOrEqual(20 * (2 + 3) + 2 * (1 + 2 + 4))
    expect(factOf(saved, 'space')).toBe(`${numbers} numbers (${8 * numbers} bytes) needed to score`)
  })

  it('say of one-packet flows what will be said of them', () => {
    expect(factOf(saved, 'one-packet flows')).toBeUndefined()
    expect(factOf(smallModel(120, { flows: 0, services: [] }).saved, 'one-packet flows')).toMatch(
      /each is novel/,
    )
    expect(factOf(smallModel(120, { flows: 9, services: ['udp/53'] }).saved, 'one-packet flows')).toMatch(
      /^9 in training, to 1 service;/,
    )
  })

  it('admit that too few rows promise nothing', () => {
    const { saved: few } = smallModel(40, null, 0.001)
    expect(factOf(few, 'threshold')).toMatch(/asked: 0\.1 %; that needs 999 calibration rows\)$/)
  })

  it('say how the threshold was calibrated, as far as the model knows', () => {
    expect(factOf(saved, 'calibrated by')).toBe(`${split.calibration.length} rows kept from the fit`)
    const calibration = {
      method: 'held-out-inputs',
      rows: 1696,
      inputs: 3,
      oddRows: 2,
      flaggedRows: 15,
      worstInputRate: 0.0123,
      bound: 16 / 1697,
      guaranteed: true,
      rowsNeeded: 99,
    } as const
    const heldOut = (changes: object) => ({
      ...saved,
      threshold: { ...saved.threshold, calibration: { ...calibration, ...changes } },
    })
    expect(factOf(heldOut({}), 'trained on')).not.toContain('threshold')
    expect(factOf(heldOut({}), 'calibrated by')).toBe(
      '1696 rows: 3 inputs held out in turn; 15 flagged (worst input: 1.23 %); 2 odd rows left out',
    )
    expect(factOf(heldOut({ inputs: 1, oddRows: 0 }), 'calibrated by')).toBe(
      '1696 rows: quarters of one input held out in turn; 15 flagged',
    )
    expect(modelFacts(saved, 'otherwise').find(({ label }) => label === 'calibrated by')?.value).toBe(
      'otherwise',
    )
  })

  it('speak of rows without a word on packets', () => {
    const contract = { featureSet: 'rows', featureSetVersion: 1, dimension: 3, scaler: 'none' } as const
    const labels = modelFacts({ ...saved, contract }).map(({ label }) => label)
    expect(labels).not.toContain('flows')
    expect(labels).not.toContain('features')
  })
})

it('describeModel shows control characters that a file may hold', () => {
  const { saved } = smallModel()
  const provenance = { ...saved.provenance, oddflowVersion: '1\u001b[2J' }
  expect(describeModel({ ...saved, provenance }).join('\n')).toContain('oddflow 1\\u001b[2J')
})

it('modelJson is plain data and leaves the tensors out', () => {
  const json = modelJson(smallModel().saved)
  expect(JSON.parse(JSON.stringify(json))).toEqual(json)
  expect(JSON.stringify(json).length).toBeLessThan(4000)
  expect(json).toMatchObject({ kind: 'oc-kjl', components: 2 })
})

it.each([
  [0, '0 %'],
  [0.00923, '0.923 %'],
  [0.5, '50 %'],
  [1, '100 %'],
])('percent(%d) is %s', (rate, text) => {
  expect(percent(rate)).toBe(text)
})
