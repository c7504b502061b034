/**
 * The documents as a site: `npm run -s site` writes site/dist, which any web server can serve from any folder.
 *
 * site/ has its own lock file, so that nobody who builds or tests installs the generator. VitePress bakes one base path
 * into its pages; `makeMovable` replaces it by the path from each page to the root. `findDeadLinks` reads what was
 * built: a link without a target, or a page that loads something from another host, fails the build.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, posix, sep } from 'node:path'
import { ensureBuilt } from './build.mjs'
import { runQuietly, ToolFailure, tell } from './command.mjs'
import { pnpmDirectory, pnpmEnvironment } from './install.mjs'
import { root } from './layout.mjs'
import { writePage } from './page.mjs'

const site = join(root, 'site')
const BASE = '/__base__/'

export async function buildSite() {
  await ensureBuilt()
  const env = { ...(await pnpmEnvironment()), CI: 'true' }
  const install = ['install', '--ignore-workspace', '--frozen-lockfile', '--prefer-offline', '--dir', site]
  await runQuietly('installing the site generator', join(await pnpmDirectory(), 'pnpm'), install, { env })
  const node = (what, ...args) => runQuietly(what, process.execPath, args, { env, cwd: site })
  await node('the API pages', 'api.mjs')
  await node('the pages', 'node_modules/vitepress/bin/vitepress.js', 'build', '--base', BASE)
  const dist = join(site, 'dist')
  makeMovable(dist)
  await writePage(join(dist, 'try'))
  const dead = findDeadLinks(dist)
  if (dead.length > 0) throw new ToolFailure('the links of the site', 1, dead.join('\n'))
  tell(`site ok: ${filesIn(dist, '.html').length} pages in ${dist}`)
}

function filesIn(dist, extension) {
  const names = readdirSync(dist, { recursive: true }).map((name) => name.split(sep).join('/'))
  return names.filter((name) => name.endsWith(extension)).sort()
}

/** Pages find the root from where they are: HTML by relative links, scripts by the variable that each page sets first. */
export function makeMovable(dist) {
  for (const name of filesIn(dist, '.html')) {
    const up = '../'.repeat(name.split('/').length - 1) || './'
    const html = readFileSync(join(dist, name), 'utf8')
      .replace('<head>', `<head><script>var siteBase=new URL("${up}",location.href).pathname</script>`)
      .replaceAll(/(href|src)="\/__base__\//g, `$1="${up}`)
      .replaceAll(`\\"${BASE}\\"`, '\\""+siteBase+"\\"')
      // the frame around a page stays while pages change, so its links must not depend on the page
      .replace(
        '</body>',
        `<script>for(let a of document.querySelectorAll('a[href^="."]'))a.href=a.href</script></body>`,
      )
    writeWhole(join(dist, name), html)
  }
  for (const name of filesIn(dist, '.js')) {
    const code = readFileSync(join(dist, name), 'utf8')
    if (!code.includes(BASE)) continue
    const moved = name.includes('localSearchIndex')
      ? code.replaceAll(`"${BASE}`, `"\${siteBase}`) // a template literal of JSON
      : code.replaceAll(/(["'`])\/__base__\/([^"'`\\]*)\1/g, '(siteBase+$1$2$1)')
    writeWhole(join(dist, name), moved)
  }
}

function writeWhole(path, text) {
  if (text.includes(BASE)) throw new Error(`${path} still has the base path where it cannot be replaced`)
  writeFileSync(path, text)
}

/** A line for each link of a page that has no target, and for each page that loads something from another host. */
export function findDeadLinks(dist) {
  const pages = new Map(filesIn(dist, '.html').map((name) => [name, readFileSync(join(dist, name), 'utf8')]))
  const idsOf = new Map()
  for (const [name, html] of pages) {
    idsOf.set(name, new Set([...html.matchAll(/\s(?:id|name)="([^"]+)"/g)].map(([, id]) => id)))
  }
  const dead = []
  for (const [name, html] of pages) {
    if (name === '404.html') continue
    for (const [tag, attribute, href] of html.matchAll(/<[a-z]+\s(?:[^>]*\s)?(href|src)="([^"]*)"/g)) {
      if (/^[a-z]+:/i.test(href)) {
        const loads = attribute === 'src' || tag.startsWith('<link')
        if (loads && !href.startsWith('data:')) dead.push(`${name} loads ${href}`)
        continue
      }
      const [path, fragment] = decodeURI(href.replaceAll('&amp;', '&')).split('#')
      let target = path === '' ? name : posix.join(posix.dirname(name), path)
      if (target === '.' || target.endsWith('/')) target = posix.join(target, 'index.html')
      if (!existsSync(join(dist, target))) dead.push(`${name} links to ${href}, which is not there`)
      else if (fragment && idsOf.get(target)?.has(fragment) === false) {
        dead.push(`${name} links to ${href}, and that page has no such heading`)
      }
    }
  }
  return dead
}
