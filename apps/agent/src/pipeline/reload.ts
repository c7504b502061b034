/** Reads suppression rules and given models again in a running agent. */
import { checkSameContract } from '@oddflow/core'
import type { AlertPipeline } from '../alerts/alert-pipeline.js'
import { createSuppression } from '../alerts/suppress.js'
import type { Settings } from '../config/settings.js'
import type { AgentEnvironment } from './environment.js'
import { type GivenModels, readModels } from './open-models.js'

interface ReloadOptions {
  readonly settings: Settings
  /** As they were read at the start. */
  readonly given: GivenModels
  readonly environment: Pick<AgentEnvironment, 'readAgain' | 'log'>
  readonly path: Pick<AlertPipeline, 'suppressBy'>
  /** Throws UsageError where the models can only be taken over by a restart. */
  readonly replaceGiven: (next: GivenModels) => void
}

/** Makes the SIGHUP handler: applies settings that may change at run time, and reports those that need a restart. */
export function createReload(options: ReloadOptions): () => Promise<void> {
  const { settings, path } = options
  const { readAgain, log } = options.environment
  let { given } = options

  const readSettings = async (): Promise<void> => {
    if (readAgain === null) return
    const next = await readAgain()
    path.suppressBy(createSuppression(next.suppress))
    log.info(`the configuration was reloaded: ${next.suppress.length} suppression rules`)
    const changed = (Object.keys(settings) as (keyof Settings)[]).filter(
      (key) => key !== 'suppress' && JSON.stringify(settings[key]) !== JSON.stringify(next[key]),
    )
    if (changed.length > 0) log.warn(`${changed.join(', ')}: the change takes effect after a restart`)
  }
  /** Files of the names that the agent was started with. */
  const readGiven = (): void => {
    const next = readModels(settings)
    const changed = changedModels(given, next)
    if (changed.length === 0) return
    checkSameContract(given.contract, next.contract)
    if (next.memory.flowBytes < given.memory.flowBytes) {
      throw new Error(
        `${changed.join(', ')}: the changed model takes memory that open flows have; restart the agent`,
      )
    }
    options.replaceGiven(next)
    given = next
    log.info(`the changed model was read: ${changed.join(', ')}`)
  }
  return async () => {
    const kept = (what: string) => (error: unknown) =>
      log.warn(`${error instanceof Error ? error.message : error}; the old ${what} stays active`)
    await readSettings().catch(kept('configuration'))
    await Promise.resolve().then(readGiven).catch(kept('model'))
  }
}

/** Names and first digits of the models that differ. */
function changedModels(before: GivenModels, next: GivenModels): string[] {
  const all = ({ base, byScope }: GivenModels) => [
    ...(base === null ? [] : [['', base] as const]),
    ...byScope,
  ]
  const old = new Map(all(before).map(([owner, { sha256 }]) => [owner, sha256]))
  return all(next)
    .filter(([owner, { sha256 }]) => old.get(owner) !== sha256)
    .map(([owner, { sha256 }]) => `${owner === '' ? '' : `${owner} `}${sha256.slice(0, 16)}`)
}
