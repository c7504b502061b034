/** `oddflow-bench data verify [DIR]`: each data set with what was found; exit code 1 when one is not as it should be. */
import { chooseManifests, OWN_MANIFESTS, readManifests } from '../datasets/read-manifests.js'
import { requireFolder } from '../datasets/require-folder.js'
import { verifyDataset } from '../datasets/verify.js'
import { print } from '../output/messages.js'

export interface DataVerifyOptions {
  readonly manifests?: string
  readonly datasets?: readonly string[]
  readonly trainRows?: number
}

export async function dataVerify(dir: string, options: DataVerifyOptions): Promise<number> {
  const manifests = chooseManifests(readManifests(options.manifests ?? OWN_MANIFESTS), options.datasets)
  requireFolder(dir)
  let faults = 0
  for (const manifest of manifests) {
    for (const { ok, text } of verifyDataset(manifest, dir, options.trainRows)) {
      print(`${manifest.name}: ${ok ? 'ok: ' : ''}${text}`)
      if (!ok) faults++
    }
  }
  return faults === 0 ? 0 : 1
}
