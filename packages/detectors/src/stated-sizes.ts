/**
 * Sizes that a caller states are held to; sizes that nobody stated fit themselves to what there is.
 *
 * There cannot be more landmarks than training rows, more dimensions than landmarks, more components or neighbours
 * than rows. The defaults are made for thousands of rows, so with fewer they are lowered and the model's notes say so.
 * A caller who asked for m = 500 and got 40 would have another detector than the one believed in: that is an
 * ArgumentError, which names the option, what was found and what there is room for.
 *
 * Bounds that only say "at most" (`maximumRows`, `quantileRows`, `clusterSearchRows`, `maximumClusters`) are met by
 * any number of rows and are not looked at here. A model does not keep what was stated: it has passed.
 */
import { ArgumentError, type Matrix } from '@oddflow/core'
import type { GivenOptions } from './option-reader.js'
import type { CheckedParameters, SizeOption } from './parameters.js'

const SIZE_OPTIONS: readonly SizeOption[] = ['m', 'd', 'k', 'neighbours', 'subsampleRows', 'components']

/** Parameters with the sizes among `given` as stated. Throws where sizes contradict each other whatever the rows. */
export function withStatedSizes(parameters: CheckedParameters, given: GivenOptions): CheckedParameters {
  const stated = SIZE_OPTIONS.filter((name) => given[name] !== undefined && given[name] !== null)
  if (stated.length === 0) return parameters
  const checked = { ...parameters, stated }
  holdToStatedSizes(checked, { rows: Number.POSITIVE_INFINITY, cols: Number.POSITIVE_INFINITY })
  return checked
}

/** Throws ArgumentError for the first stated size that there are too few training rows or columns for. */
export function holdToStatedSizes(parameters: CheckedParameters, shape: RowsShape): void {
  const { stated = [] } = parameters
  const broken = sizeLimits(parameters, shape).find(
    ({ name, size, most }) => size > most && stated.includes(name),
  )
  if (broken === undefined) return
  const { name, size, most, what } = broken
  throw new ArgumentError(`${name}: expected at most ${most}, ${what}, found ${size}`, name)
}

/** Sizes that rows of that shape are too few for: a fit lowers those that were not stated. */
export function exceedingSizes(parameters: CheckedParameters, shape: RowsShape): SizeOption[] {
  return sizeLimits(parameters, shape)
    .filter(({ size, most }) => size > most)
    .map(({ name }) => name)
}

/** The parameters as a model keeps them. */
export function keptParameters<Parameters extends CheckedParameters>(parameters: Parameters): Parameters {
  const { stated: _, ...kept } = parameters
  // of the same type, in which `stated` may be absent
  return kept as Parameters
}

/** Training rows: how many, and how wide. */
export type RowsShape = Pick<Matrix, 'rows' | 'cols'>

interface SizeLimit {
  readonly name: SizeOption
  readonly size: number
  readonly most: number
  /** Of what there are so many. */
  readonly what: string
}

function sizeLimits(parameters: CheckedParameters, { rows: n, cols }: RowsShape): SizeLimit[] {
  const limits: SizeLimit[] = []
  const limit = (
    name: SizeOption,
    size: number,
    most: number,
    what = 'the number of training rows',
  ): void => {
    limits.push({ name, size, most, what })
  }
  if ('m' in parameters && parameters.m !== null) limit('m', parameters.m, n)
  if ('d' in parameters) limit('d', parameters.d, Math.min(parameters.m, n), 'the number of landmarks')
  if ('k' in parameters) limit('k', parameters.k, n)
  if ('subsampleRows' in parameters) limit('subsampleRows', parameters.subsampleRows, n)
  if ('components' in parameters && parameters.components !== null) {
    limit('components', parameters.components, n)
    limit('components', parameters.components, cols - 1, 'one fewer than there are columns')
  }
  if ('start' in parameters) {
    const { start } = parameters
    if (start.kind === 'k-means++') limit('k', start.k, n)
    else if (start.neighbours !== null) {
      const searched = Math.min(n, start.clusterSearchRows)
      limit('neighbours', start.neighbours, searched, 'the number of rows that clusters are searched in')
    }
  }
  return limits
}
