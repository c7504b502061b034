/**
 * The sidebar of the site, which has every page; a page that it lacks fails test/site.test.ts and the build of the site.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { sep } from 'node:path'
import { root } from '../tools/workspace/layout.mjs'

/** Paths of the pages that the sidebar has, and of the home page. */
export const pagesInSidebar = new Set(['site/index.md'])

const read = (path) => readFileSync(`${root}/${path}`, 'utf8')

/** An entry of the sidebar: the page's first heading, unless `text` is given. */
function page(path, text = /^# (.+)$/m.exec(read(path))[1].replaceAll('`', '')) {
  pagesInSidebar.add(path)
  return { text, link: `/${path.replace(/\.md$/, '')}` }
}
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

export const sidebar = [
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
    items: ['core', 'linalg', 'capture', 'flows', 'detectors', 'online', 'evaluation', 'program'].map(
      (name) => page(`packages/${name}/README.md`),
    ),
  },
  { text: 'API', collapsed: true, items: apiPages() },
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

/** Of the last build of the site. */
function apiPages() {
  const folder = `${root}/site/api`
  if (!existsSync(folder)) return []
  const names = readdirSync(folder, { recursive: true }).map((name) => name.split(sep).join('/'))
  const pages = names.filter((name) => name.endsWith('.md') && name !== 'index.md').sort()
  return ['index.md', ...pages].map((name) => page(`site/api/${name}`))
}
