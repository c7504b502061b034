/** `oddflow-bench embeddings`: what the paper's two pictures of embeddings are drawn from, into one file. */
import { availableManifests } from '../datasets/load-repeat.js'
import { measureClusterInCluster, measureMixture, writeEmbeddings } from '../embeddings.js'
import { createProgress, note } from '../output.js'

export interface EmbeddingsOptions {
  readonly data: string
  readonly manifests?: string
  readonly datasets: readonly string[]
  readonly draws: number
  readonly seed: number
  readonly out: string
}

export function embeddings(options: EmbeddingsOptions): void {
  const { data, seed, draws, out } = options
  const manifests = availableManifests(options)
  const detectors = ['oc-kjl-qs', 'oc-nystrom-qs'] as const
  const progress = createProgress()
  progress.start(1 + manifests.length * detectors.length)
  try {
    const clusterInCluster = measureClusterInCluster(seed, draws)
    let done = 1
    progress.update(done, 'cluster in cluster')
    const mixtures = manifests.flatMap((manifest) =>
      detectors.map((detector) => {
        const picture = measureMixture(manifest, detector, data, seed)
        progress.update(++done, `${manifest.name} ${detector}`)
        return picture
      }),
    )
    writeEmbeddings(out, { format: 1, seed, clusterInCluster, mixtures })
    progress.stop()
    note(`${out}: cluster in cluster, ${mixtures.length} mixtures; draw them with: oddflow-bench tables`)
  } finally {
    progress.stop()
  }
}
