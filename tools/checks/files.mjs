/**
 * The files that the checks look at: what git tracks or would track, so never an output or a dependency.
 *
 * Without git (an unpacked archive) the tree is walked and the names that .gitignore lists are left out.
 * Text files only: one with a NUL byte (a capture, an image) is not text.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

const UNTRACKED = new Set(['node_modules', 'dist', 'build', '.turbo', '.git', 'coverage', 'oddflow-report'])

function walk(root, at, found) {
  for (const entry of readdirSync(join(root, at), { withFileTypes: true })) {
    if (UNTRACKED.has(entry.name) || entry.name.endsWith('.tsbuildinfo')) continue
    const path = at === '' ? entry.name : `${at}/${entry.name}`
    if (entry.isDirectory()) walk(root, path, found)
    else if (entry.isFile()) found.push(path)
  }
  return found
}

export function listFiles(root) {
  if (!existsSync(join(root, '.git'))) return walk(root, '', []).sort()
  try {
    const args = ['-c', 'core.quotePath=false', 'ls-files', '-z', '-co', '--exclude-standard']
    const output = execFileSync('git', args, {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    const listed = [...new Set(output.split('\0'))].filter((path) => path !== '')
    return listed.filter((path) => statSync(join(root, path), { throwIfNoEntry: false })?.isFile()).sort()
  } catch {
    return walk(root, '', []).sort() // no git here, or not our checkout in its eyes
  }
}

/** `{ path, text }` of every text file. */
export function readTextFiles(root, paths = listFiles(root)) {
  const files = []
  for (const path of paths) {
    const bytes = readFileSync(join(root, path))
    if (!bytes.includes(0)) files.push({ path, text: bytes.toString('utf8') })
  }
  return files
}

export const lineAt = (text, offset) => text.slice(0, offset).split('\n').length
