/** What a running agent takes over from its configuration when it is told to read it again. */

import type { AlertPath } from '../alerts/alert-path.js'
import { createSuppression } from '../alerts/suppress.js'
import type { Settings } from '../config/settings.js'
import type { AgentEnvironment } from './environment.js'

/** Takes over what may change while the agent runs, the rules of suppression, and says what does not. */
export async function reload(
  settings: Settings,
  { readAgain, log }: AgentEnvironment,
  path: AlertPath,
): Promise<void> {
  if (readAgain === null) return
  try {
    const next = await readAgain()
    path.suppressBy(createSuppression(next.suppress))
    log.info(`the configuration was reloaded: ${next.suppress.length} suppression rules`)
    const changed = (Object.keys(settings) as (keyof Settings)[]).filter(
      (key) => key !== 'suppress' && JSON.stringify(settings[key]) !== JSON.stringify(next[key]),
    )
    if (changed.length > 0) log.warn(`${changed.join(', ')}: the change takes effect after a restart`)
  } catch (error) {
    log.warn(`${error instanceof Error ? error.message : error}; the old configuration stays in force`)
  }
}
