/**
 * Variants: recipes under a name. `default` is the one that the studies judge; the others differ from it in what their
 * names say, and stand beside it on the page of the default recipe (recipe.ts).
 */
import type { DetectorOptions } from '@oddflow/detectors'
import type { Recipe } from './flows.js'

const DEFAULT_RECIPE: Recipe = {
  features: 'flow-summary',
  idleSeconds: 600,
  activeSeconds: 600,
  detector: { detector: 'ensemble' },
}
/** No flow of a capture is so long. */
const UNCUT_SECONDS = 1e7

function detectedBy(detector: DetectorOptions): Recipe {
  return { ...DEFAULT_RECIPE, detector }
}

/** One detector on the rows of the default, standardised as the ensemble's are. */
function alone(detector: DetectorOptions): Recipe {
  return detectedBy({ ...detector, scaler: 'standard' })
}

function cutAt(idleSeconds: number, activeSeconds: number): Recipe {
  return { ...DEFAULT_RECIPE, idleSeconds, activeSeconds }
}

export const DEFAULT_VARIANT = 'default'

export const VARIANTS: Readonly<Record<string, Recipe>> = {
  [DEFAULT_VARIANT]: DEFAULT_RECIPE,
  before: {
    features: 'iat-size',
    idleSeconds: 600,
    activeSeconds: null,
    detector: { detector: 'oc-kjl-qs' },
  },
  'nearest+hbos+gmm': detectedBy({ detector: 'ensemble', members: ['nearest', 'hbos', 'gmm'] }),
  'nearest+hbos+oc-kjl': detectedBy({ detector: 'ensemble', members: ['nearest', 'hbos', 'oc-kjl'] }),
  'nearest+hbos+iforest': detectedBy({ detector: 'ensemble', members: ['nearest', 'hbos', 'iforest'] }),
  'ensemble-of-nearest': detectedBy({ detector: 'ensemble', members: ['nearest'] }),
  'ensemble-of-hbos': detectedBy({ detector: 'ensemble', members: ['hbos'] }),
  'm-50': detectedBy({ detector: 'ensemble', m: 50 }),
  'm-32': detectedBy({ detector: 'ensemble', m: 32 }),
  'bins-10': detectedBy({ detector: 'ensemble', bins: 10 }),
  'bins-30': detectedBy({ detector: 'ensemble', bins: 30 }),
  nearest: alone({ detector: 'nearest' }),
  hbos: alone({ detector: 'hbos' }),
  gmm: alone({ detector: 'gmm' }),
  'oc-kjl': alone({ detector: 'oc-kjl' }),
  'oc-kjl-d-10-q-0.6': alone({ detector: 'oc-kjl', d: 10, bandwidthQuantile: 0.6 }),
  'ocsvm-nu-0.01': alone({ detector: 'ocsvm', nu: 0.01 }),
  'ocsvm-nu-0.5': alone({ detector: 'ocsvm', nu: 0.5 }),
  iforest: alone({ detector: 'iforest' }),
  pca: alone({ detector: 'pca' }),
  kde: alone({ detector: 'kde' }),
  'idle-900-cut-900': cutAt(900, 900),
  'idle-600-uncut': cutAt(600, UNCUT_SECONDS),
  'idle-600-cut-300': cutAt(600, 300),
  'idle-600-cut-60': cutAt(600, 60),
  'idle-300-uncut': cutAt(300, UNCUT_SECONDS),
  'idle-300-cut-600': cutAt(300, 600),
  'idle-300-cut-300': cutAt(300, 300),
  'idle-120-cut-300': cutAt(120, 300),
  'idle-60-cut-60': cutAt(60, 60),
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
