/**
 * Variants: recipes under a name. `default` is what `oddflow train` does without options; the others differ from it in
 * what their names say, and stand on the page of the default recipe (recipe.ts).
 */
import type { DetectorOptions } from '@oddflow/detectors'
import type { Recipe } from './flows.js'

/** What `oddflow train` does without options. */
const DEFAULT_RECIPE: Recipe = {
  features: 'iat-size',
  idleSeconds: 600,
  activeSeconds: null,
  detector: { detector: 'oc-kjl-qs' },
}

/** A detector alone on flow summaries. */
function alone(detector: DetectorOptions): Recipe {
  return {
    features: 'flow-summary',
    idleSeconds: 300,
    activeSeconds: 300,
    detector: { scaler: 'standard', ...detector },
  }
}

export const DEFAULT_VARIANT = 'default'

export const VARIANTS: Readonly<Record<string, Recipe>> = {
  [DEFAULT_VARIANT]: DEFAULT_RECIPE,
  nearest: alone({ detector: 'nearest' }),
  gmm: alone({ detector: 'gmm' }),
  'oc-kjl': alone({ detector: 'oc-kjl', d: 10, bandwidthQuantile: 0.6 }),
  'oc-kjl-qs': alone({ detector: 'oc-kjl-qs' }),
  'ocsvm-nu-0.01': alone({ detector: 'ocsvm', nu: 0.01 }),
  'ocsvm-nu-0.5': alone({ detector: 'ocsvm', nu: 0.5 }),
  iforest: alone({ detector: 'iforest' }),
  pca: alone({ detector: 'pca' }),
  kde: alone({ detector: 'kde' }),
}

export const VARIANT_NAMES = Object.keys(VARIANTS)

export function variantNamed(name: string): Recipe {
  const recipe = VARIANTS[name]
  if (recipe === undefined) throw new RangeError(`${name}: no such variant`)
  return recipe
}

/** As the command line of `oddflow train` has it. */
export function describeRecipe({ features, idleSeconds, activeSeconds, detector }: Recipe): string {
  const options = Object.entries(detector).map(([name, value]) => {
    const flag = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
    return value === true ? flag : `${flag} ${Array.isArray(value) ? value.join(',') : String(value)}`
  })
  return [
    'oddflow train …',
    `--features ${features}`,
    `--idle-timeout ${idleSeconds}`,
    ...(activeSeconds === null ? [] : [`--active-timeout ${activeSeconds}`]),
    ...options,
  ].join(' ')
}
