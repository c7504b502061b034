/**
 * Components that go: the dead are removed, and where there are too many the two that differ least become one.
 *
 * Dead is a component whose mass has fallen below one row's: forgetting does that, and EM to components that
 * others have starved. The cost of merging i and j is Runnalls' bound on the Kullback–Leibler divergence between
 * the mixtures before and after ("Kullback–Leibler approach to Gaussian mixture reduction", IEEE Transactions on
 * Aerospace and Electronic Systems 43, 2007, equation 19):
 *
 *     B(i, j) = ½ [(w_i + w_j) log |Σ_ij| − w_i log |Σ_i| − w_j log |Σ_j|]
 *
 * with Σ_ij the covariance of both taken together. The merged component keeps mass, mean and scatter of the two,
 * so the mixture's own mean and covariance stay what they were.
 */
import { log } from '@oddflow/core'
import {
  addComponent,
  type MixtureStatistics,
  mixtureOfStatistics,
  takeComponents,
  totalMass,
} from './mixture-statistics.js'

/** Rows' worth of mass that a component must have. */
export const LEAST_MASS = 1

/** Numbers of the components to keep; never none. */
export function livingComponents({ masses }: MixtureStatistics, leastMass = LEAST_MASS): number[] {
  const living: number[] = []
  let largest = 0
  for (let j = 0; j < masses.length; j++) {
    if (masses[j]! > masses[largest]!) largest = j
    if (masses[j]! >= leastMass) living.push(j)
  }
  return living.length > 0 ? living : [largest]
}

/** The pair i < j that is merged at the least cost; null when there is only one component. */
export function cheapestMerge(
  statistics: MixtureStatistics,
  regularisation: number,
): { readonly i: number; readonly j: number; readonly cost: number } | null {
  const k = statistics.masses.length
  const total = totalMass(statistics)
  const logDeterminants = Array.from({ length: k }, (_, j) =>
    logDeterminant(takeComponents(statistics, [j]), regularisation),
  )
  let best: { i: number; j: number; cost: number } | null = null
  for (let i = 0; i < k; i++) {
    for (let j = i + 1; j < k; j++) {
      const both = takeComponents(statistics, [i])
      addComponent(both, 0, statistics, j)
      const wi = statistics.masses[i]! / total
      const wj = statistics.masses[j]! / total
      const cost =
        0.5 *
        ((wi + wj) * logDeterminant(both, regularisation) -
          wi * logDeterminants[i]! -
          wj * logDeterminants[j]!)
      if (best === null || cost < best.cost) best = { i, j, cost }
    }
  }
  return best
}

/** Component j added to component i, and the rest as it was. `statistics` is not changed. */
export function mergeComponents(statistics: MixtureStatistics, i: number, j: number): MixtureStatistics {
  const kept = Array.from(statistics.masses.keys()).filter((component) => component !== j)
  const out = takeComponents(statistics, kept)
  addComponent(out, kept.indexOf(i), statistics, j)
  return out
}

/** log |Σ| of a single component. */
function logDeterminant(single: MixtureStatistics, regularisation: number): number {
  const { precisionCholesky } = mixtureOfStatistics(single, regularisation)
  const { d, covarianceType } = single
  let sum = 0
  for (let a = 0; a < d; a++) sum += log(precisionCholesky[covarianceType === 'full' ? a * d + a : a]!)
  return -2 * sum
}
