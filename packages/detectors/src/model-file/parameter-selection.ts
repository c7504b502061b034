/**
 * ParameterSelection: how a model's parameters were chosen, where a grid was searched; part of its provenance.
 *
 * It says what was tried and on what the candidates were judged, so that the search can be made again. The choice
 * itself stands in the model's parameters, and must be one of the grid.
 */
import { FormatError } from '@oddflow/core'
import { detectorOptionsOf } from '../check-parameters.js'
import type { CheckedParameters, GridOption } from '../parameters.js'
import { DETECTORS } from '../registry.js'
import { FORMAT } from './layout.js'

export type GridValue = number | string | boolean

/** The largest AUC on labelled validation rows; ties went to the candidate that comes first in the grid. */
export interface ParameterSelection {
  readonly criterion: 'validation-auc'
  /** The values of each option that was searched, in the order tried; the last option changed fastest. */
  readonly grid: Readonly<Partial<Record<GridOption, readonly GridValue[]>>>
  /** The product of the grid's lengths. */
  readonly candidates: number
  /** Candidates that could not be fitted, fewer than all. */
  readonly failed: number
  /** Of the chosen candidate. */
  readonly auc: number
  readonly normalRows: number
  readonly novelRows: number
  /** SHA-256 of the validation rows, normal ones first, as row-major little-endian float64. */
  readonly dataSha256: string
}

const MAXIMUM_VALUES = 1000

/** Of a model with these parameters. Throws FormatError naming the field. */
export function checkParameterSelection(value: unknown, parameters: CheckedParameters): ParameterSelection {
  const fail = (field: string, expected: string): never => {
    const name = `provenance.selection${field === '' ? '' : `.${field}`}`
    throw new FormatError(FORMAT, `${name}: expected ${expected}`, { field: name })
  }
  const recordAt = (found: unknown, field: string): Record<string, unknown> => {
    if (found !== null && typeof found === 'object' && !Array.isArray(found)) {
      return found as Record<string, unknown>
    }
    return fail(field, 'an object')
  }
  const wholeAt = (field: string, found: unknown, low: number, high: number): number => {
    if (typeof found === 'number' && Number.isSafeInteger(found) && found >= low && found <= high)
      return found
    return fail(field, `a whole number from ${low} to ${high}`)
  }
  const { criterion, grid, candidates, failed, auc, normalRows, novelRows, dataSha256, ...rest } = recordAt(
    value,
    '',
  )
  for (const field of Object.keys(rest)) fail(/^\w{1,60}$/.test(field) ? field : '', 'no such field')
  if (criterion !== 'validation-auc') return fail('criterion', 'validation-auc')
  const checkedGrid = checkGrid(recordAt(grid, 'grid'), parameters, fail)
  const product = Object.values(checkedGrid).reduce((count, values) => count * values.length, 1)
  if (candidates !== product) return fail('candidates', `${product}, as many as the grid has`)
  if (typeof auc !== 'number' || !(auc >= 0 && auc <= 1)) return fail('auc', 'a number from 0 to 1')
  if (typeof dataSha256 !== 'string' || !/^[0-9a-f]{64}$/.test(dataSha256)) {
    return fail('dataSha256', '64 lower-case hexadecimal digits')
  }
  return {
    criterion,
    grid: checkedGrid,
    candidates: product,
    failed: wholeAt('failed', failed, 0, product - 1),
    auc,
    normalRows: wholeAt('normalRows', normalRows, 1, Number.MAX_SAFE_INTEGER),
    novelRows: wholeAt('novelRows', novelRows, 1, Number.MAX_SAFE_INTEGER),
    dataSha256,
  }
}

function checkGrid(
  grid: Record<string, unknown>,
  parameters: CheckedParameters,
  fail: (field: string, expected: string) => never,
): Record<string, GridValue[]> {
  const { options } = DETECTORS[parameters.detector]
  const chosen = detectorOptionsOf(parameters) as Readonly<Record<string, unknown>>
  const checked: [string, GridValue[]][] = []
  for (const [name, values] of Object.entries(grid)) {
    if (!(options as readonly string[]).includes(name))
      fail('grid', `options of ${parameters.detector} alone`)
    const field = `grid.${name}`
    if (!Array.isArray(values) || values.length < 1 || values.length > MAXIMUM_VALUES) {
      return fail(field, `a list of 1 to ${MAXIMUM_VALUES} values`)
    }
    if (!values.every(isGridValue) || new Set(values).size < values.length) {
      return fail(field, 'different numbers, texts or truth values')
    }
    const choice = chosen[name]
    if (!values.some((v) => v === choice)) fail(field, 'a list that has the value of the parameters')
    checked.push([name, [...values]])
  }
  if (checked.length === 0) fail('grid', 'at least one option')
  return Object.fromEntries(checked)
}

function isGridValue(value: unknown): value is GridValue {
  return typeof value === 'number'
    ? Number.isFinite(value)
    : typeof value === 'boolean' || (typeof value === 'string' && value.length <= 60)
}
