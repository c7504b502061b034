/**
 * Every relative link in a Markdown file leads to a file that is there, and its #fragment to a heading.
 *
 * Headings become fragments as GitHub makes them: lower case, punctuation dropped, spaces to hyphens, a
 * number after the second of its kind. Code blocks and spans are not read. Links to elsewhere are not
 * followed: a check must not depend on the network.
 */
import { posix } from 'node:path'
import { lineAt } from './files.mjs'

const LINK = /\[(?:[^\]\\]|\\.)*\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)/g
const DEFINITION = /^\s{0,3}\[[^\]]+\]:\s*<?([^\s>]+)>?/gm

/** The text with code blanked out, at the same offsets. */
function withoutCode(text) {
  const blank = (code) => code.replace(/[^\n]/g, ' ')
  return text.replace(/^ *(`{3,}|~{3,})[\s\S]*?^ *\1`*~* *$/gm, blank).replace(/`[^`\n]*`/g, blank)
}

/** The fragment that GitHub gives a heading. */
export function slugOf(heading) {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-')
}

function fragmentsOf(text) {
  const seen = new Map()
  const fragments = new Set()
  const prose = text.replace(/^ *(`{3,}|~{3,})[\s\S]*?^ *\1`*~* *$/gm, '')
  for (const [, heading] of prose.matchAll(/^#{1,6}\s+(.+?)\s*#*$/gm)) {
    const slug = slugOf(heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1'))
    const count = seen.get(slug) ?? 0
    seen.set(slug, count + 1)
    fragments.add(count === 0 ? slug : `${slug}-${count}`)
  }
  for (const [, id] of text.matchAll(/<a\s+(?:id|name)="([^"]+)"/g)) fragments.add(id)
  return fragments
}

export function checkLinks(files, paths = files.map(({ path }) => path)) {
  const textOf = new Map(files.map(({ path, text }) => [path, text]))
  const known = new Set(['.', ...paths])
  for (const path of paths) {
    for (let at = posix.dirname(path); at !== '.'; at = posix.dirname(at)) known.add(at)
  }
  const complaints = []
  for (const { path, text } of files) {
    if (!path.endsWith('.md')) continue
    const prose = withoutCode(text)
    for (const match of [...prose.matchAll(LINK), ...prose.matchAll(DEFINITION)]) {
      const target = match[1]
      if (/^(?:[a-z][a-z0-9+.-]*:|\/\/)/i.test(target)) continue
      const [name, fragment] = decodeURIComponent(target).split('#')
      const file =
        name === '' ? path : posix.normalize(posix.join(posix.dirname(path), name)).replace(/\/$/, '')
      const line = lineAt(text, match.index)
      if (!known.has(file)) complaints.push({ path, line, message: `links to ${target}, which is not there` })
      else if (fragment && file.endsWith('.md') && !fragmentsOf(textOf.get(file) ?? '').has(fragment)) {
        complaints.push({ path, line, message: `links to ${target}, and ${file} has no such heading` })
      }
    }
  }
  return complaints
}
