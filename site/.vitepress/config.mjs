/**
 * The site: the Markdown files of the repository as they are, in three guides, programs, reference, API, results and
 * decisions. `npm run -s site` builds it (tools/workspace/site.mjs).
 *
 * A link to a file that is no page (code, a folder) becomes plain text, because there is no address to lead to.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'
import { slugOf } from '../../tools/checks/links.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
const read = (path) => readFileSync(`${root}/${path}`, 'utf8')

/** An entry of the sidebar: the page's first heading, unless `text` is given. */
function page(path, text = /^# (.+)$/m.exec(read(path))[1].replaceAll('`', '')) {
  inSidebar.add(path)
  return { text, link: `/${path.replace(/\.md$/, '')}` }
}
const inSidebar = new Set(['site/index.md'])
const pagesIn = (folder) => {
  const names = readdirSync(`${root}/${folder}`).filter((name) => name.endsWith('.md'))
  return names.sort().map((name) => page(`${folder}/${name}`))
}

/** The results under the headings of their index, in its order. */
function resultGroups() {
  const sections = read('docs/results/README.md').split(/^## /m).slice(1)
  const taken = new Set()
  return sections.flatMap((section) => {
    const names = [...section.matchAll(/\]\(([\w-]+\.md)\)/g)].map(([, name]) => name)
    const fresh = [...new Set(names)].filter((name) => !taken.has(name))
    for (const name of fresh) taken.add(name)
    if (fresh.length === 0) return []
    const items = fresh.map((name) => page(`docs/results/${name}`))
    return [{ text: section.split('\n', 1)[0], collapsed: true, items }]
  })
}

const guides = [
  page('docs/guides/first-week.md'),
  page('docs/guides/developers.md'),
  page('docs/guides/researchers.md'),
]
const agentPages = [
  'devices',
  'incidents',
  'gateway-models',
  'alert-budget',
  'dashboard',
  'overload',
  'agent-machines',
]
const programs = [
  page('apps/trainer/README.md'),
  page('apps/agent/README.md'),
  page('apps/fleet/README.md'),
  page('apps/bench/README.md'),
  page('python/README.md'),
]

/** Every page of docs/ that no other part of the sidebar has. */
const reference = pagesIn('docs').filter(
  ({ link }) => !agentPages.some((name) => link === `/docs/${name}`) && link !== '/docs/fleet',
)

const sidebar = [
  { text: 'Guides', items: [page('README.md', 'Overview'), ...guides] },
  { text: 'Programs', collapsed: true, items: programs },
  {
    text: 'The agent',
    collapsed: true,
    items: [...agentPages.map((name) => page(`docs/${name}.md`)), page('docs/fleet.md')],
  },
  { text: 'Reference', collapsed: true, items: reference },
  {
    text: 'Packages',
    collapsed: true,
    items: ['core', 'linalg', 'capture', 'flows', 'detectors', 'evaluation', 'program'].map((name) =>
      page(`packages/${name}/README.md`),
    ),
  },
  { text: 'API', collapsed: true, items: [page('site/api/index.md'), ...apiPages()] },
  {
    text: 'Results',
    collapsed: true,
    items: [page('docs/results/README.md', 'All results'), ...resultGroups()],
  },
  { text: 'Decisions', collapsed: true, items: pagesIn('docs/decisions') },
  {
    text: 'The project',
    collapsed: true,
    items: [
      page('CONTRIBUTING.md'),
      page('tools/traffic-lab/README.md'),
      page('tools/golden-generators/README.md'),
      page('tools/slow/README.md'),
    ],
  },
]

function apiPages() {
  return readdirSync(`${root}/site/api`, { recursive: true })
    .filter((name) => name.endsWith('.md') && name !== 'index.md')
    .sort()
    .map((name) => page(`site/api/${name}`))
}

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
    const lost = pages.filter((path) => !inSidebar.has(path))
    if (lost.length > 0) throw new Error(`not in the sidebar: ${lost.join(', ')}`)
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'At home', link: guides[0].link },
      { text: 'Developers', link: guides[1].link },
      { text: 'Researchers', link: guides[2].link },
      { text: 'API', link: '/site/api/index' },
      // not a page of VitePress (tools/workspace/page.mjs)
      { text: 'Try it', link: '/try/index.html', target: '_self' },
      { text: 'Results', link: '/docs/results/README' },
    ],
    sidebar,
  },
})
