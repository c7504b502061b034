/**
 * What every detector must do: named checks that run over each one in the registry, by what they are about.
 */
import { COLUMNS_CHECKS } from './columns.js'
import { DEGENERATE_ROWS_CHECKS } from './degenerate-rows.js'
import { FITTING_CHECKS } from './fitting.js'
import type { ConformanceChecks } from './fixtures.js'
import { GUARD_CHECKS } from './guard.js'
import { REFUSALS_CHECKS } from './refusals.js'
import { SCORING_CHECKS } from './scoring.js'

export const CONFORMANCE_CHECKS: ConformanceChecks = {
  ...FITTING_CHECKS,
  ...SCORING_CHECKS,
  ...GUARD_CHECKS,
  ...REFUSALS_CHECKS,
  ...DEGENERATE_ROWS_CHECKS,
  ...COLUMNS_CHECKS,
}
