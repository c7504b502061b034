import { UsageError } from '@oddflow/program'
import { describe, expect, it } from 'vitest'
import { type TrainCommandOptions, trainOptionsFrom } from '../src/commands/train.js'
import { flowPlan, frameSizeWarning } from '../src/pipeline/flow-plan.js'
import { recipeDetector, recipeNamed } from '../src/recipes.js'

const given = (changes: Partial<TrainCommandOptions> = {}): TrainCommandOptions => ({
  output: 'm',
  recipe: 'default',
  fpr: 0.01,
  calibrationShare: 0.2,
  seed: 1,
  format: 'text',
  ...changes,
})
const options = (changes: Partial<TrainCommandOptions> = {}, recipe = 'default') =>
  trainOptionsFrom(given(changes), recipeNamed(recipe), recipeNamed(recipe).features)

describe('rows with sizes of frames', () => {
  const warning = (changes: Partial<TrainCommandOptions>) =>
    frameSizeWarning(flowPlan(given(changes), recipeNamed('default')))

  it.each(['iat-size', 'size', 'stats-header', 'samp-size'] as const)('%s is warned of', (features) => {
    expect(warning({ features })).toMatch(/^--features \S+ with --size frame: .* depend on where/)
    expect(warning({ features, size: 'ip' })).toBeNull()
  })

  it.each(['flow-summary', 'iat', 'samp-num', 'header-bits'] as const)('%s has none', (features) => {
    expect(warning({ features })).toBeNull()
  })
})

describe('recipes', () => {
  it('paper is the text of the paper where it is unambiguous', () => {
    expect(recipeNamed('paper')).toMatchObject({
      bandwidthQuantile: 0.25,
      centre: false,
      iatUnit: 'microseconds',
      truncation: 'truncate',
    })
  })

  it('default judges flow summaries by an ensemble', () => {
    const { calibrationShare: _, ...bare } = given()
    const recipe = recipeNamed('default')
    expect(trainOptionsFrom(bare, recipe, recipe.features).detector).toEqual({
      detector: 'ensemble',
      scaler: 'none',
    })
    expect(flowPlan(given(), recipeNamed('default'))).toMatchObject({
      gathering: { idleTimeoutMicros: 600_000_000, endOnClose: true, sizeMeasure: 'payload' },
      learning: { featureSet: 'flow-summary', activeTimeoutMicros: 600_000_000 },
    })
  })

  it('default has oc-kjl-qs for other rows, which differs from the paper in quantile, unit and long flows', () => {
    expect(recipeDetector(recipeNamed('default'), 'iat-size')).toBe('oc-kjl-qs')
    expect(recipeDetector(recipeNamed('default'), undefined)).toBe('oc-kjl-qs')
    expect(recipeNamed('default')).toMatchObject({
      bandwidthQuantile: 0.3,
      centre: false,
      scaler: 'none',
      iatUnit: 'seconds',
      sizeMeasure: 'frame',
      truncation: 'split',
    })
  })

  it.each(['authers', 'toString', '__proto__', ''])('there is no recipe %j', (name) => {
    expect(() => recipeNamed(name)).toThrow(UsageError)
  })
})

describe('options over a recipe', () => {
  it('a single option overrides its setting and leaves the others', () => {
    expect(options({ bandwidthQuantile: 0.5 }, 'paper').detector).toMatchObject({
      detector: 'oc-kjl-qs',
      bandwidthQuantile: 0.5,
      centre: false,
    })
    expect(flowPlan(given({ iatUnit: 's' }), recipeNamed('paper')).learning).toMatchObject({
      iatUnit: 'seconds',
      mode: 'truncate',
    })
  })

  it("drops a recipe's setting that the detector has no use for, and refuses it when it is given", () => {
    expect(options({ detector: 'oc-nystrom-qs' }).detector).not.toHaveProperty('centre')
    expect(() => options({ detector: 'oc-nystrom-qs', centre: true })).toThrow(/^--centre: does not apply/)
    expect(() => options({ detector: 'oc-nystrom-qs', centre: false })).toThrow(/^--centre: does not apply/)
    expect(() => options({ k: 3 })).toThrow(
      /^--k: does not apply to ensemble; leave it out, or name a detector that takes it: oc-kjl, oc-nystrom, gmm$/,
    )
  })

  it.each([
    [{ fpr: 0 }, '--fpr'],
    [{ fpr: 1 }, '--fpr'],
    [{ fpr: Number.NaN }, '--fpr'],
    [{ calibrationShare: 0 }, '--calibration-share'],
    [{ calibrationShare: 1 }, '--calibration-share'],
    [{ m: 0 }, '--m'],
    [{ detector: 'oc-kjl', d: 0 }, '--d'],
    [{ detector: 'oc-kjl', bandwidthQuantile: 1.5 }, '--bandwidth-quantile'],
    [{ detector: 'oc-kjl', k: 0 }, '--k'],
    [{ detector: 'oc' }, '--detector'],
  ])('refuses %j by its flag', (changes, flag) => {
    expect(() => options(changes)).toThrow(UsageError)
    expect(() => options(changes)).toThrow(new RegExp(`^${flag}\\b`))
  })

  it.each([0, -1, Number.NaN, 1e12, 1e-9])('refuses a timeout of %d seconds', (seconds) => {
    expect(() => flowPlan(given({ idleTimeout: seconds }), recipeNamed('default'))).toThrow(/^--idle-timeout/)
    expect(() => flowPlan(given({ activeTimeout: seconds }), recipeNamed('default'))).toThrow(
      /^--active-timeout/,
    )
  })

  it('takes seconds with a fraction as whole microseconds', () => {
    const { gathering } = flowPlan(given({ idleTimeout: 0.1 + 0.2 }), recipeNamed('default'))
    expect(gathering.idleTimeoutMicros).toBe(300_000)
  })
})
