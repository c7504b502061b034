/**
 * The captures that OddFlow carries: in the published package under demo/, in a checkout among the test
 * fixtures, with the labels that say what is novel in which.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { FormatError } from '@oddflow/core'
import { z } from 'zod'
import { PACKAGE_FOLDER } from '../package-folder.js'

const LABELS = z.object({
  captures: z.array(
    z.object({
      file: z.string().regex(/^[\w.-]+$/),
      label: z.enum(['normal', 'novel']),
      whatHappens: z.string(),
      novelWhen: z.string().nullish(),
    }),
  ),
})

export type DemoCapture = z.infer<typeof LABELS>['captures'][number] & { readonly path: string }

export function demoCaptures(): DemoCapture[] {
  const folder = ['demo', '../../test/fixtures/lab']
    .map((relative) => fileURLToPath(new URL(relative, PACKAGE_FOLDER)))
    .find((path) => existsSync(join(path, 'labels.json')))
  if (folder === undefined) {
    throw new FormatError(
      'demo',
      'the captures that come with OddFlow are missing; install the package again',
    )
  }
  const labels = LABELS.parse(JSON.parse(readFileSync(join(folder, 'labels.json'), 'utf8')))
  return labels.captures.map((capture) => ({ ...capture, path: join(folder, capture.file) }))
}
