/** All manifests of a folder, by name. Those of the paper come with this package. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { FormatError, parseStrictJson } from '@oddflow/core'
import { inFile, UsageError } from '../errors.js'
import { checkManifest, type Manifest } from './manifest.js'

export const OWN_MANIFESTS = fileURLToPath(new URL('../../datasets', import.meta.url))

const MAXIMUM_MANIFEST_BYTES = 1_000_000

/** Sorted by name. Throws UsageError where there are none, FileError or an error that begins with the file's name. */
export function readManifests(folder: string): Manifest[] {
  const names = inFile(folder, () => readdirSync(folder).filter((name) => name.endsWith('.json')))
  if (names.length === 0) throw new UsageError(`${folder}: holds no manifests (NAME.json)`)
  const manifests = names.map((file) => {
    const path = join(folder, file)
    return inFile(path, () => {
      const { size } = statSync(path)
      if (size > MAXIMUM_MANIFEST_BYTES) throw new FormatError('manifest', `${size} bytes are no manifest`)
      const { value } = parseStrictJson(readFileSync(path, 'utf8'), (message, position) => {
        throw new FormatError('manifest', message, { offsetBytes: position })
      })
      const manifest = checkManifest(value)
      if (`${manifest.name}.json` !== file) {
        throw new FormatError('manifest', `name: expected ${file.slice(0, -5)} as the file is called`, {
          field: 'name',
        })
      }
      return manifest
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
