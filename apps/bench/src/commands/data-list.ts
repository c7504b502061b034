/** `oddflow-bench data list`: the manifests, for a person or as JSON lines. */
import type { Manifest } from '../datasets/manifest.js'
import { OWN_MANIFESTS, readManifests } from '../datasets/read-manifests.js'
import { print } from '../output/messages.js'

export interface DataListOptions {
  readonly manifests?: string
  readonly format: 'text' | 'json'
}

export function dataList(options: DataListOptions): void {
  for (const manifest of readManifests(options.manifests ?? OWN_MANIFESTS)) {
    if (options.format === 'json') print(JSON.stringify(manifest))
    else for (const line of describe(manifest)) print(line)
  }
}

function describe(manifest: Manifest): string[] {
  const head = `${manifest.name}: ${manifest.title}`
  if (manifest.kind === 'rows') {
    const lines = [
      head,
      `  feature rows: ${manifest.features}, D = ${manifest.dimension}, ${manifest.repeats} repeats, in ${manifest.folder}/`,
    ]
    return manifest.note === null ? lines : [...lines, `  ${manifest.note}`]
  }
  const { source, normal, novel } = manifest
  const flows = (count: number | null): string => (count === null ? 'an unknown number of' : String(count))
  const offered =
    source.publisher === null ? source.access : `${source.publisher}, ${source.address ?? 'no address known'}`
  return [
    head,
    `  captures: ${offered}${source.collected === null ? '' : `; ${source.collected}`}`,
    `  normal: ${flows(normal.expectedFlows)} flows of ${normal.addresses.join(', ')}`,
    `  novel: ${flows(novel.expectedFlows)} flows of ${novel.addresses.join(', ')} (${manifest.novelty})`,
    `  ${manifest.labelRule}`,
  ]
}
