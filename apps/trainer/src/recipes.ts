/**
 * Recipes: presets of `train` and `extract` that single options override (docs/recipes.md).
 *
 * - `default`: what measurement favours (docs/results/default-recipe.md), flow summaries judged by an ensemble. It also sets
 *   what `oc-kjl-qs` needs, for rows of other feature sets.
 * - `paper`: the text of Yang, Kpotufe and Feamster.
 * - `authors`: their code. Its rows are theirs to the bit (docs/flows.md).
 */

import type {
  FlowFeatureSet,
  FlowKeyRule,
  IatUnit,
  ScalerName,
  SizeMeasure,
  TruncationMode,
} from '@oddflow/core'
import type { DetectorName, QuantileCompat } from '@oddflow/detectors'
import { UsageError } from '@oddflow/program'

export interface Recipe {
  readonly features: FlowFeatureSet
  /** For rows of `features`; `oc-kjl-qs` for those of other feature sets. */
  readonly detector: DetectorName
  readonly bandwidthQuantile: number
  readonly quantileCompat: QuantileCompat
  readonly centre: boolean
  readonly supportGuard: boolean
  readonly scaler: ScalerName
  readonly iatUnit: IatUnit
  readonly sizeMeasure: SizeMeasure
  readonly truncation: TruncationMode
  readonly flowKey: FlowKeyRule
}

export const RECIPES: Readonly<Record<string, Recipe>> = {
  default: {
    features: 'flow-summary',
    detector: 'ensemble',
    bandwidthQuantile: 0.3,
    quantileCompat: 'pairs',
    centre: false,
    supportGuard: true,
    scaler: 'none',
    iatUnit: 'seconds',
    sizeMeasure: 'frame',
    truncation: 'split',
    flowKey: 'bidirectional-5-tuple',
  },
  paper: {
    features: 'iat-size',
    detector: 'oc-kjl-qs',
    bandwidthQuantile: 0.25,
    quantileCompat: 'pairs',
    centre: false,
    supportGuard: false,
    scaler: 'none',
    iatUnit: 'microseconds',
    sizeMeasure: 'frame',
    truncation: 'truncate',
    flowKey: 'bidirectional-5-tuple',
  },
  authors: {
    features: 'iat-size',
    detector: 'oc-kjl-qs',
    bandwidthQuantile: 0.3,
    quantileCompat: 'authors',
    centre: true,
    supportGuard: false,
    scaler: 'none',
    iatUnit: 'seconds',
    sizeMeasure: 'captured',
    truncation: 'idle-gap',
    flowKey: 'directional-5-tuple',
  },
}

/** For rows of a feature set; undefined: rows of a file, where nothing is chosen by measurement. */
export function recipeDetector(recipe: Recipe, features: FlowFeatureSet | undefined): DetectorName {
  return features === recipe.features ? recipe.detector : 'oc-kjl-qs'
}

export function recipeNamed(name: string): Recipe {
  const recipe = Object.hasOwn(RECIPES, name) ? RECIPES[name] : undefined
  if (recipe === undefined) {
    throw new UsageError(`--recipe ${name}: expected one of ${Object.keys(RECIPES).join(', ')}`)
  }
  return recipe
}
