/** The support guard inside a detector: its place in a model file, its size, and what is said of it. */
import type { ModelFact } from '../detector-definition.js'
import type { SupportGuardModel } from '../model.js'
import type { Fields } from '../model-fields.js'
import { type ModelFileParts, type ModelFileReader, matrixTensor, vectorTensor } from '../model-file/parts.js'

export function encodeGuard(guard: SupportGuardModel | null): ModelFileParts['tensors'] {
  if (guard === null) return {}
  return {
    'supportGuard.density': matrixTensor(guard.density),
    'supportGuard.squaredReaches': vectorTensor(guard.squaredReaches),
    'supportGuard.support': matrixTensor(guard.support),
  }
}

/** Unchecked; null where the parameters speak of none. */
export function decodeGuard(file: ModelFileReader, parameters: Fields): Fields | null {
  if (parameters.supportGuard !== true) return null
  return {
    density: file.matrix('supportGuard.density'),
    squaredReaches: file.vector('supportGuard.squaredReaches'),
    support: file.matrix('supportGuard.support'),
  }
}

/** Numbers: one for each landmark, and the two tables. */
export function guardSpaceNumbers(guard: SupportGuardModel | null): number {
  return guard === null
    ? 0
    : guard.squaredReaches.length + guard.density.data.length + guard.support.data.length
}

/** `unguarded`: what scores are without one. */
export function guardFact(guard: SupportGuardModel | null, unguarded: string): ModelFact {
  return { label: 'support guard', value: guard === null ? `none: scores are ${unguarded}` : 'on' }
}
