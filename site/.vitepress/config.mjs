/**
 * The site: the Markdown files of the repository as they are, in three guides, programs, reference, API, results and
 * decisions. `npm run -s site` builds it (tools/workspace/site.mjs).
 *
 * A link to a file that is no page (code, a folder) becomes plain text, because there is no address to lead to.
 */
import { existsSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'
import { slugOf } from '../../tools/checks/links.mjs'
import { pagesInSidebar, sidebar } from '../sidebar.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Links as GitHub reads them: to a folder's README, and only to what is a page. */
function readLinks(markdown) {
  markdown.core.ruler.push('links', ({ tokens, env }) => {
    for (const { children } of tokens) {
      const open = []
      for (const token of children ?? []) {
        if (token.type === 'link_open') {
          open.push(token)
          readLink(token, env.relativePath)
        } else if (token.type === 'link_close') token.tag = open.pop().tag
      }
    }
  })
}

function readLink(token, from) {
  const href = token.attrGet('href')
  if (/^(?:[a-z][a-z0-9+.-]*:|#|\/)/i.test(href)) return
  const [name, fragment] = decodeURI(href).split('#')
  let target = posix.normalize(posix.join(posix.dirname(from), name)).replace(/\/$/, '')
  if (existsSync(`${root}/${target}/README.md`)) target += '/README.md'
  else if (target === 'docs/decisions') target += '/0001-workspace.md'
  if (target.endsWith('.md')) {
    const path = posix.relative(posix.dirname(from), target)
    token.attrSet('href', fragment === undefined ? path : `${path}#${fragment}`)
  } else {
    token.tag = 'span'
    token.attrs = null
  }
}

const ICON = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="7" fill="#3451b2"/><circle cx="11" cy="5" r="2" fill="#fff"/></svg>',
)}`

/** The pages are outside site/, so Vite finds no vue for them; the rendering process does. */
const findVue = {
  name: 'find-vue',
  enforce: 'pre',
  resolveId: (id, _importer, { ssr }) => (ssr && /^vue(?:\/|$)/.test(id) ? { id, external: true } : null),
}

export default defineConfig({
  title: 'OddFlow',
  description: 'Learns what a network device normally does and flags what is new',
  srcDir: root,
  srcExclude: [
    '.changeset/**',
    'test/**',
    '**/test/**',
    'coverage/**',
    '**/demo/**',
    'apps/*/python/**',
    '.*/**',
  ],
  outDir: `${root}/site/dist`,
  cacheDir: `${root}/site/node_modules/.cache`,
  vite: { build: { chunkSizeWarningLimit: 4096 }, plugins: [findVue] },
  rewrites: { 'site/index.md': 'index.md' },
  markdown: { config: readLinks, anchor: { slugify: slugOf } },
  head: [['link', { rel: 'icon', href: ICON }]],
  buildEnd({ pages }) {
    const lost = pages.filter((path) => !pagesInSidebar.has(path))
    if (lost.length > 0) throw new Error(`not in the sidebar: ${lost.join(', ')}`)
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'At home', link: '/docs/guides/first-week' },
      { text: 'Developers', link: '/docs/guides/developers' },
      { text: 'Researchers', link: '/docs/guides/researchers' },
      { text: 'API', link: '/site/api/index' },
      // not a page of VitePress (tools/workspace/page.mjs)
      { text: 'Try it', link: '/try/index.html', target: '_self' },
      { text: 'Results', link: '/docs/results/README' },
    ],
    sidebar,
  },
})
