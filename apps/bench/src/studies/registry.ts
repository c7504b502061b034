/** All studies, in the order of the results' pages. */
import { agentWeek } from './agent-week.js'
import { attacks } from './attacks.js'
import { capturePairs } from './capture-pairs.js'
import { cost } from './cost.js'
import { embeddings } from './embeddings.js'
import { exportsStudy } from './exports.js'
import { incidents } from './incidents.js'
import { learningDrift } from './learning-drift.js'
import { learningMillion } from './learning-million.js'
import { learningMode } from './learning-mode.js'
import { learningPlan } from './learning-plan.js'
import { learningPoison } from './learning-poison.js'
import { plainRows } from './plain-rows.js'
import { poisoning } from './poisoning.js'
import { recipe } from './recipe.js'
import { rows } from './rows.js'
import type { Study } from './study.js'
import { supportGuard } from './support-guard.js'
import { updates } from './updates.js'
import { watch } from './watch.js'
import { week } from './week.js'

export const STUDIES: readonly Study[] = [
  watch,
  week,
  attacks,
  incidents,
  agentWeek,
  poisoning,
  rows,
  plainRows,
  updates,
  recipe,
  cost,
  capturePairs,
  supportGuard,
  embeddings,
  learningPlan,
  learningMode,
  learningDrift,
  learningPoison,
  learningMillion,
  exportsStudy,
]
