/** The captures of one side of a data set: NAME/normal or NAME/novel, by name. */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { CapturesManifest } from './manifest.js'

export interface CaptureFiles {
  readonly found: readonly string[]
  /** Paths of what should be there: files that the manifest names, or the folder itself. */
  readonly missing: readonly string[]
}

export function captureFiles(
  folder: string,
  side: 'normal' | 'novel',
  { files }: CapturesManifest['normal'],
): CaptureFiles {
  const place = join(folder, side)
  if (files !== null) {
    const paths = files.map((file) => join(place, file))
    return { found: paths.filter(existsSync), missing: paths.filter((path) => !existsSync(path)) }
  }
  const names = existsSync(place) ? readdirSync(place).sort() : []
  const found = names
    .filter((name) => /\.(pcap|pcapng|cap)(\.gz)?$/i.test(name))
    .map((name) => join(place, name))
  return { found, missing: found.length > 0 ? [] : [join(place, '*.pcap')] }
}
