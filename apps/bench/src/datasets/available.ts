/** The data sets asked for that are there; one that was named and is not there is an error, others are left out. */
import { DataError } from '@oddflow/core'
import { note } from '../output/messages.js'
import { isAvailable } from './load-repeat.js'
import type { Manifest } from './manifest.js'
import { chooseManifests, OWN_MANIFESTS, readManifests } from './read-manifests.js'

export interface AvailableOptions {
  readonly data: string
  readonly manifests?: string
  readonly datasets?: readonly string[]
}

/** At least one. Throws UsageError for an unknown name, DataError where data are missing. */
export function availableManifests({ data, manifests, datasets }: AvailableOptions): Manifest[] {
  const chosen = chooseManifests(readManifests(manifests ?? OWN_MANIFESTS), datasets)
  const found = chosen.filter((manifest) => isAvailable(manifest, data))
  const absent = chosen.filter((manifest) => !found.includes(manifest)).map(({ name }) => name)
  if (absent.length > 0) {
    const message = `no data of ${absent.join(', ')} in ${data}; see: oddflow-bench data verify`
    if (datasets !== undefined) throw new DataError(message)
    if (found.length > 0) note(`left out: ${message}`)
  }
  if (found.length === 0) throw new DataError(`${data}: holds none of the data sets; give --data`)
  return found
}
