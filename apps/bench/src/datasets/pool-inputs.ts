/**
 * What pools are made of, as hashes: captures, and what the manifest and the rules say of them. The part of the manifest
 * has a hash of its own: it is compared whenever pools are read, when nobody wants to read the captures again.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { basename } from 'node:path'
import { openCapture } from '@oddflow/capture/node'
import { DataError } from '@oddflow/core'
import type { CapturesManifest } from './manifest.js'

/** A change of the rules makes new pools. */
export const RULES = {
  truncation: 'truncate',
  iatUnit: 'microseconds',
  sizeMeasure: 'frame',
  samplingQuantile: 0.3,
} as const

export type SideFiles = Readonly<Record<'normal' | 'novel', readonly string[]>>

/** Of what decides which packets make which pool: hosts, windows, files and label rule, and the rules of all pools. */
export function hashManifest({ labelRule, normal, novel }: CapturesManifest): string {
  const sides = [normal, novel].map(({ addresses, timeWindows, files }) => [addresses, timeWindows, files])
  return createHash('sha256')
    .update(JSON.stringify([RULES, labelRule, sides]))
    .digest('hex')
}

/**
 * Of the manifest and of each capture's name and content. Throws DataError where one side has the same capture twice,
 * whose flows would count twice: a copy, a link, a name written in two ways.
 */
export async function hashInputs(
  manifest: CapturesManifest,
  sides: SideFiles,
  onBytes: (bytes: number) => void,
): Promise<string> {
  const hash = createHash('sha256')
  hash.update(hashManifest(manifest))
  for (const side of ['normal', 'novel'] as const) {
    const fileOf = new Map<string, string>()
    for (const file of sides[side]) {
      const content = createHash('sha256')
      for await (const chunk of createReadStream(file)) {
        content.update(chunk as Uint8Array)
        onBytes((chunk as Uint8Array).length)
      }
      const digest = content.digest('hex')
      const same = fileOf.get(digest)
      // recorders that found nothing to record write equal files
      if (same !== undefined && (await hasPackets(file))) {
        throw new DataError(`${same} and ${file} are the same capture, and its flows would count twice`)
      }
      fileOf.set(digest, file)
      hash.update(JSON.stringify([side, basename(file), digest]))
    }
  }
  return hash.digest('hex')
}

async function hasPackets(file: string): Promise<boolean> {
  for await (const frames of openCapture(file)) if (frames.count > 0) return true
  return false
}
