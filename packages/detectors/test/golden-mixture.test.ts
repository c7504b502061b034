import { matrixFromRows } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import { runEm } from '../src/mixture/fit-mixture.js'
import { createMixture, mixtureCovariances, mixtureLogDensities } from '../src/mixture/gaussian-mixture.js'
import { expectClose } from './close.js'
import { goldenAbsent, readGolden } from './shared.js'

interface State {
  weights: number[]
  means: number[][]
  covariances: number[][][]
}

interface Golden05 {
  X: number[][]
  T: number[][]
  weights0: number[]
  means0: number[][]
  reg: number
  tol: number
  max_iter: number
  full: State & {
    covariances0: number[][][]
    initial_log_density_T: number[]
    iterates: State[]
    loglik: number[]
    n_iter: number
    converged: boolean
    log_density_T: number[]
    log_density_X: number[]
  }
}

describe.skipIf(goldenAbsent)('golden 05: EM with full covariances (scikit-learn)', () => {
  const g = goldenAbsent ? undefined : readGolden<Golden05>('05_gmm_em')
  const run = (maximumSteps: number) => {
    const { X, weights0, means0, full, tol, reg } = g!
    const start = createMixture(
      Float64Array.from(weights0),
      matrixFromRows(means0),
      Float64Array.from(full.covariances0.flat(2)),
    )
    const em = { tolerance: tol, maximumSteps, regularisation: reg }
    return { start, result: runEm(matrixFromRows(X), start, em)! }
  }
  const expectState = (mixture: ReturnType<typeof run>['start'], state: State) => {
    expectClose(mixture.weights, state.weights, 1e-10)
    expectClose(mixture.means.data, state.means.flat(), 1e-10)
    expectClose(mixtureCovariances(mixture), state.covariances.flat(2), 1e-10)
  }

  it('has the densities of the start', () => {
    expectClose(mixtureLogDensities(run(1).start, matrixFromRows(g!.T)), g!.full.initial_log_density_T, 1e-10)
  })

  it('has the iterates', () => {
    g!.full.iterates.forEach((state, i) => {
      expectState(run(i + 1).result.mixture, state)
    })
  })

  it('stops where it should, with the likelihoods and the densities', () => {
    const { mixture, meanLogLikelihoods, converged } = run(g!.max_iter).result
    expect(meanLogLikelihoods).toHaveLength(g!.full.n_iter)
    expect(converged).toBe(g!.full.converged)
    expectClose(meanLogLikelihoods, g!.full.loglik, 1e-10)
    expectState(mixture, g!.full)
    expectClose(mixtureLogDensities(mixture, matrixFromRows(g!.T)), g!.full.log_density_T, 1e-9)
    expectClose(mixtureLogDensities(mixture, matrixFromRows(g!.X)), g!.full.log_density_X, 1e-9)
  })
})
