/**
 * What `npm run -s site` does to the pages that VitePress writes: links work from any folder, and dead ones are found.
 * test/browser/site.test.ts tries the whole site.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { runInNewContext } from 'node:vm'
import { afterAll, expect, it } from 'vitest'
import { pagesInSidebar } from '../site/sidebar.mjs'
import { listFiles } from '../tools/checks/files.mjs'
import { root } from '../tools/workspace/layout.mjs'
import { findDeadLinks, makeMovable } from '../tools/workspace/site.mjs'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-site-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function makeSite(name: string, files: Record<string, string>): string {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name, path)), { recursive: true })
    writeFileSync(join(folder, name, path), text)
  }
  return join(folder, name)
}

it('makes links, site data, scripts and the search index independent of the folder', () => {
  const dist = makeSite('movable', {
    'a/b/page.html':
      '<head><link href="/__base__/x.css"></head><body><script>data=JSON.parse("{\\"base\\":\\"/__base__/\\"}")</script></body>',
    'index.html': '<head></head><body><img src="/__base__/i.svg"></body>',
    'app.js': 'result=["/__base__/assets/x.svg","/__base__/"+1,`/__base__/y`.length]',
    'localSearchIndex.js': 'result=JSON.parse(`{"0":"/__base__/a.html#x"}`)',
  })
  makeMovable(dist)
  const text = (path: string) => readFileSync(join(dist, path), 'utf8')
  expect(text('a/b/page.html')).toContain('href="../../x.css"')
  expect(text('a/b/page.html')).toContain('new URL("../../",location.href)')
  expect(text('index.html')).toContain('src="./i.svg"')
  const run = (code: string, name: string) => {
    const context: Record<string, unknown> = { siteBase: '/some/where/' }
    runInNewContext(code, context)
    return JSON.parse(JSON.stringify(context[name]))
  }
  const [, data] = /<script>(data=.*?)<\/script>/.exec(text('a/b/page.html'))!
  expect(run(data!, 'data')).toEqual({ base: '/some/where/' })
  expect(run(text('app.js'), 'result')).toEqual(['/some/where/assets/x.svg', '/some/where/1', 13])
  expect(run(text('localSearchIndex.js'), 'result')).toEqual({ 0: '/some/where/a.html#x' })
})

it('refuses a base path that it cannot replace', () => {
  const dist = makeSite('stuck', { 'app.js': 'a="see /__base__/x"' })
  expect(() => makeMovable(dist)).toThrow(/app\.js still has the base path/)
})

it('finds links without a target and what is loaded from another host', () => {
  const dist = makeSite('dead', {
    'index.html':
      '<a href="./a/page.html#there"></a><a href="./a/"></a><a href="https://example.org/"></a><link rel="icon" href="data:,">',
    'a/page.html':
      '<h2 id="there"></h2><a href="#here"></a><a href="../index.html"></a><a href="../gone.html"></a>' +
      '<link rel="stylesheet" href="https://example.org/x.css"><script src="https://example.org/x.js"></script>',
  })
  expect(findDeadLinks(dist)).toEqual([
    'a/page.html links to #here, and that page has no such heading',
    'a/page.html links to ../gone.html, which is not there',
    'a/page.html loads https://example.org/x.css',
    'a/page.html loads https://example.org/x.js',
    'index.html links to ./a/, which is not there',
  ])
})

it('has every document of the repository in its sidebar', () => {
  const documents = (listFiles(root) as string[]).filter((path) => /^(?!\.|test\/).*\.md$/.test(path))
  expect(documents.length).toBeGreaterThan(60)
  expect(documents.filter((path) => !pagesInSidebar.has(path))).toEqual([])
})
