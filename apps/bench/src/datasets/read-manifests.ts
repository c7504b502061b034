/** All manifests of a folder, by name. Those of the paper come with this package. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { FormatError } from '@oddflow/core'
import { inFile, UsageError } from '../errors.js'
import { readShape, requireSize } from '../read-shapes.js'
import { type Manifest, manifestShape } from './manifest.js'

export const OWN_MANIFESTS = fileURLToPath(new URL('../../datasets', import.meta.url))

const MAXIMUM_MANIFEST_BYTES = 1_000_000

/** Sorted by name. Throws UsageError where there are none, FileError or an error that begins with the file's name. */
export function readManifests(folder: string = OWN_MANIFESTS): Manifest[] {
  const names = inFile(folder, () => readdirSync(folder).filter((name) => name.endsWith('.json')))
  if (names.length === 0) throw new UsageError(`${folder}: holds no manifests (NAME.json)`)
  const manifests = names.map((file) => {
    const path = join(folder, file)
    return inFile(path, () => {
      requireSize(path, 'manifest', MAXIMUM_MANIFEST_BYTES)
      const found = readShape(manifestShape, path, 'manifest')
      if (`${found.name}.json` !== file) {
        throw new FormatError('manifest', `name: expected ${file.slice(0, -5)} as the file is called`, {
          field: 'name',
        })
      }
      return found
    })
  })
  return manifests.sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** Those named, in the order of names; all when none is. Throws UsageError for a name that is not there. */
export function chooseManifests(all: readonly Manifest[], names: readonly string[] | undefined): Manifest[] {
  if (names === undefined) return [...all]
  return names.map((name) => {
    const found = all.find((manifest) => manifest.name === name)
    if (found === undefined) {
      throw new UsageError(`${name}: no such data set; there are ${all.map((m) => m.name).join(', ')}`)
    }
    return found
  })
}
