/** The capture pairs: which captures are trained on and which judged, of which hosts. Not in the repository. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const checkout = resolve(dirname(fileURLToPath(import.meta.url)), '../..')

/** data/pairs under ODDFLOW_SHARED, or ../shared beside the checkout. */
export const CAPTURE_PAIRS = join(process.env.ODDFLOW_SHARED ?? join(checkout, '../shared'), 'data/pairs')

/** Names of the pairs in a folder; ends the program with exit code 2 when there is none. */
export function pairNames(folder) {
  const names = existsSync(folder) ? readdirSync(folder).sort() : []
  const found = names.filter((name) => existsSync(join(folder, name, 'manifest.json')))
  if (found.length > 0) return found
  console.error(`no capture pairs in ${folder}: give --data the folder that holds NAME/manifest.json`)
  process.exit(2)
}

/**
 * Of one pair: paths of the normal captures whose number is odd (`train`) and even (`normal`), and of the novel ones;
 * filters of the hosts, null for all packets; and the manifest's own figures of a baseline.
 */
export function readPair(folder, name) {
  const manifest = JSON.parse(readFileSync(join(folder, name, 'manifest.json'), 'utf8'))
  const paths = (files) => files.map(({ file }) => join(folder, name, file))
  const numbered = (odd) =>
    paths(
      manifest.normal.files.filter(({ file }) => Number(/(\d+)(?:-STA)?\.pcap/.exec(file)[1]) % 2 === odd),
    )
  return {
    captures: { train: numbered(1), normal: numbered(0), novel: paths(manifest.novel.files) },
    normalFilter: hosts(manifest.normal.filter),
    novelFilter: hosts(manifest.novel.filter),
    baseline: manifest.baseline.auc_mean_std_by_quantile,
  }
}

function hosts({ ip }) {
  return ip === undefined
    ? null
    : [ip]
        .flat()
        .map((address) => `host ${address}`)
        .join(' or ')
}
