/** The state folder that a command is about: given by itself, or in the agent's configuration. */
import { fileError, UsageError } from '@oddflow/program'
import { nodeFileSystem } from '../files/file-system.js'
import { stateIn } from './read-settings.js'

export interface StateOptions {
  readonly state?: string
  readonly config?: string
}

/** The folder must be there: one that is misspelt is not one without devices and models. Rejects with UsageError or FileError. */
export async function stateOf({ state, config }: StateOptions): Promise<string> {
  const folder = state ?? (config === undefined ? null : await stateIn(config))
  if (folder === null) {
    throw new UsageError(
      config === undefined
        ? '--state is missing: give the state folder, or the configuration by -c'
        : `${config}: names no state folder; give "state:" in it`,
    )
  }
  try {
    await nodeFileSystem.list(folder)
  } catch (error) {
    throw fileError('read', folder, error)
  }
  return folder
}
