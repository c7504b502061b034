/**
 * A checkout names no package registry and no place on one person's machine.
 *
 * Which registry or mirror is used is the user's configuration; the lock file therefore holds no URL at
 * all. A path into somebody's home or working folder works for nobody else. The words looked for are put
 * together from halves, so that this file does not name them itself.
 */
import { lineAt } from './files.mjs'

const REGISTRIES = [
  ['registry.', 'npmjs.org'],
  ['registry.', 'yarnpkg.com'],
  ['registry.', 'npmmirror.com'],
  ['npm.pkg.', 'github.com'],
  ['deb.', 'debian.org'],
  ['files.', 'pythonhosted.org'],
  ['//', 'pypi.org'],
].map((halves) => halves.join(''))

const escapePattern = (text) => text.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')
const REGISTRY = new RegExp(REGISTRIES.map(escapePattern).join('|'), 'g')
const MACHINE_PATH = new RegExp(
  [`(?<![\\w.~-])/${'wo'}rk/(?:main|shared)\\b`, `(?<![\\w.~-])/${'ro'}ot/`, `/${'tm'}p/oddflow-briefs`].join(
    '|',
  ),
  'g',
)
const URL_IN_LOCK = /\b(?:https?|git\+\w+|ssh):\/\/\S+|\btarball:/g

function find(complaints, { path, text }, pattern, message) {
  for (const match of text.matchAll(pattern)) {
    complaints.push({ path, line: lineAt(text, match.index), message: `${message}: ${match[0]}` })
  }
}

export function checkAddresses(files) {
  const complaints = []
  for (const file of files) {
    find(complaints, file, REGISTRY, "names a registry, which is the user's choice")
    find(complaints, file, MACHINE_PATH, 'names a path of one machine')
    if (file.path.endsWith('pnpm-lock.yaml'))
      find(complaints, file, URL_IN_LOCK, 'the lock file holds an address')
  }
  return complaints
}
