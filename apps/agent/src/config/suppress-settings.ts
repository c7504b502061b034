/** The rules of suppression: each can hold, and has a name of its own. */
import { createSuppression, type SuppressionRule } from '../alerts/suppress.js'
import type { Given } from './given.js'

/** Throws UsageError. */
export function suppressFrom({ config, located, refuse }: Given): readonly SuppressionRule[] {
  const rules = config.suppress ?? []
  located(['suppress'], () => createSuppression(rules))
  for (const [i, { name }] of rules.entries()) {
    if (rules.findIndex((other) => other.name === name) === i) continue
    refuse(
      ['suppress', i, 'name'],
      `suppress[${i}].name: ${JSON.stringify(name)} is another rule's; give each its own`,
    )
  }
  return rules
}
