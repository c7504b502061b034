/**
 * Each rule of tools/checks can fail: a file that breaks it is complained of at its line, and a file that
 * comes close without breaking it is not.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { checkAddresses } from '../tools/checks/addresses.mjs'
import { checkAmbient } from '../tools/checks/ambient.mjs'
import { checkExports, checkImports, readSources } from '../tools/checks/exports.mjs'
import { checkLinks } from '../tools/checks/links.mjs'
import { checkManifests } from '../tools/checks/manifests.mjs'
import { checkMethods } from '../tools/checks/methods.mjs'

const linesOf = (complaints: { line: number }[]): number[] => complaints.map(({ line }) => line)

describe('library code', () => {
  const check = (path: string, text: string): number[] => linesOf(checkAmbient([{ path, text }]))
  const flows = 'packages/flows/src/flow.ts'
  const core = 'packages/core/src/exp-log.ts'

  it.each([
    'Math.random()',
    'Date.now()',
    'new Date()',
    'Date()',
    'performance.now()',
    'globalThis.x = crypto.randomUUID()',
    "import { readFileSync } from 'node:fs'",
    "import fs from 'fs'",
    "export * from 'node:path'",
    "await import('fs/promises')",
    'const { random } = Math',
  ])('must not contain %s', (statement) => {
    const path = statement.includes('= Math') ? core : flows
    expect(check(path, `// one\n${statement}\n`)).toEqual([2])
  })

  it.each(['exp', 'log', 'log1p', 'pow', 'sin', 'cos', 'tan', 'tanh', 'hypot', 'cbrt', 'atan2'])(
    'must not call Math.%s where results reach a score',
    (name) => {
      expect(check(core, `export const y = Math.${name}(1, 2)`)).toEqual([1])
      expect(check('packages/linalg/src/a/b.ts', `export const y = Math.${name}(1, 2)`)).toEqual([1])
      expect(check('packages/detectors/src/a.ts', `export const y = Math.${name}(1, 2)`)).toEqual([1])
    },
  )

  it('must not use ** or another name for Math where results reach a score', () => {
    expect(check(core, 'let y = x ** 2\ny **= 2\nconst M = Math\nconst e = Math["exp"]')).toEqual([
      1, 2, 3, 4,
    ])
  })

  it('may do what is exact, what the caller passes in, and speak of the rest', () => {
    const text = [
      '// Math.random and new Date() are not used',
      "const text = 'Date.now() node:fs'",
      'const y = Math.sqrt(2) + Math.floor(1.5) + Math.PI + 2 ** 32',
      'const at = new Date(startMicros / 1000)',
      "import { exp } from './exp-log.js'",
      'const report = { performance: 1, crypto: 2 }',
      'report.performance',
    ].join('\n')
    expect(check(core, text)).toEqual([])
  })

  it('may use node: in the entry for Node, and the rest outside of packages', () => {
    expect(check('packages/capture/src/node/index.ts', "import 'node:fs'")).toEqual([])
    expect(check('packages/capture/src/pcap.ts', "import 'node:fs'")).toEqual([1])
    expect(check('packages/capture/src/node/machine-clock.ts', 'performance.now()')).toEqual([])
    expect(check('packages/capture/src/node/open-live.ts', 'performance.now()')).toEqual([1])
    expect(check('apps/trainer/src/main.ts', "import 'node:fs'\nDate.now()")).toEqual([])
    expect(check('packages/core/test/rng.test.ts', 'Math.random()')).toEqual([])
  })
})

describe('addresses', () => {
  const check = (path: string, text: string): number[] => linesOf(checkAddresses([{ path, text }]))
  const join = (...parts: string[]): string => parts.join('')

  it('must not be those of a registry or of one machine', () => {
    expect(check('README.md', join('\nhttps://registry.', 'npmjs.org/x'))).toEqual([2])
    expect(check('Dockerfile', join('deb http://deb.', 'debian.org/debian'))).toEqual([1])
    expect(check('a.ts', join("'/ro", "ot/x' and /wo", 'rk/main/y'))).toEqual([1, 1])
  })

  it('must not be in the lock file at all', () => {
    expect(check('pnpm-lock.yaml', 'a:\n  tarball: x\n  url: https://example.org/x')).toEqual([2, 3])
    expect(check('docs/a.md', join('https://example.org/x, a/wo', 'rk/main and the root/ of it'))).toEqual([])
  })
})

describe('manifests', () => {
  const prepack = 'node ../../tools/workspace/run.mjs build packages/sample'
  const scripts = { build: 'a', typecheck: 'b', test: 'c', watch: 'd', prepack }
  const good = {
    name: '@oddflow/sample',
    description: 'A sample of what a manifest must say',
    keywords: ['one', 'two', 'three'],
    homepage: 'https://www.npmjs.com/package/@oddflow/sample',
    license: 'MIT',
    type: 'module',
    sideEffects: false,
    engines: { node: '>=20.0.0' },
    exports: { '.': { types: './dist/index.d.ts', default: './dist/index.js' } },
    files: ['dist', 'README.md', 'CHANGELOG.md', 'LICENSE'],
    publishConfig: { access: 'public' },
    scripts,
    dependencies: { '@oddflow/core': 'workspace:^', 'ml-matrix': '6.15.1' },
  }
  const beside = ['README.md', 'LICENSE', 'tsconfig.json', 'turbo.json']
  const check = (manifest: object, names = beside): string[] => {
    const files = names.map((name) => ({ path: `packages/sample/${name}`, text: '' }))
    const own = { path: 'packages/sample/package.json', text: JSON.stringify(manifest) }
    return checkManifests([own, ...files]).map(({ message }) => message)
  }

  it('pass when they say everything', () => expect(check(good)).toEqual([]))

  it.each([
    ['license', { license: 'ISC' }],
    ['type', { type: 'commonjs' }],
    ['sideEffects', { sideEffects: undefined }],
    ['engines.node', { engines: { node: '>=18' } }],
    ['exports', { exports: { '.': './dist/index.js' } }],
    ['exports', { exports: { '.': { default: './dist/index.js', types: './dist/index.d.ts' } } }],
    ['exports', { exports: undefined }],
    ['files', { files: ['dist', 'CHANGELOG.md', 'LICENSE'] }],
    ['files', { files: ['dist', 'README.md', 'LICENSE'] }],
    ['publishConfig.access', { publishConfig: {} }],
    ['script watch', { scripts: { ...scripts, watch: undefined } }],
    ['script prepack', { scripts: { ...scripts, prepack: undefined } }],
    ['script prepack', { scripts: { ...scripts, prepack: prepack.replace('sample', 'core') } }],
    ['repository', { repository: 'https://example.org' }],
    ['description', { description: 'short' }],
    ['proper name', { name: 'sample', homepage: 'https://www.npmjs.com/package/sample' }],
    ['keywords', { keywords: ['one'] }],
    ['homepage', { homepage: undefined }],
    ['private', { private: true }],
    ['@oddflow/core', { dependencies: { '@oddflow/core': '^0.1.0' } }],
    ['ml-matrix', { dependencies: { 'ml-matrix': '^6.15.1' } }],
  ])('fail for a wrong %s', (word, change) => {
    const complaints = check({ ...good, ...change })
    expect(complaints).toHaveLength(1)
    expect(complaints[0]).toContain(word)
  })

  it.each(beside)('fail without %s beside them', (name) => {
    expect(
      check(
        good,
        beside.filter((other) => other !== name),
      ),
    ).toEqual([`has no ${name} beside it`])
  })
})

describe('public exports', () => {
  const manifest = {
    path: 'packages/sample/package.json',
    text: JSON.stringify({
      exports: {
        '.': { types: './dist/index.d.ts', default: './dist/index.js' },
        './node': { types: './dist/node/index.d.ts', default: './dist/node/index.js' },
      },
    }),
  }
  const check = (sources: Record<string, string>): string[] => {
    const files = Object.entries(sources).map(([name, text]) => ({
      path: `packages/sample/src/${name}`,
      text,
    }))
    return checkExports(readSources([manifest, ...files])).map(
      ({ path, line, message }) =>
        `${path.slice('packages/sample/src/'.length)}:${line} ${message.split(' ')[0]}`,
    )
  }

  it('are complained about at their declarations, whatever way they are exported', () => {
    const a =
      '/** A file. */\nimport x from "y"\nexport const one = 1\n// no doc comment\nexport type Two = 2\n'
    const found = ['a.ts:3 one', 'a.ts:5 Two']
    expect(check({ 'index.ts': "export { one, type Two } from './a.js'", 'a.ts': a })).toEqual(found)
    expect(check({ 'index.ts': "export * from './a.js'", 'a.ts': a })).toEqual(found)
    expect(check({ 'index.ts': "import { one } from './a.js'\nexport { one as uno }", 'a.ts': a })).toEqual([
      'a.ts:3 uno',
    ])
    expect(check({ 'node/index.ts': "export * from '../a.js'", 'a.ts': a })).toEqual(found)
    expect(check({ 'index.ts': 'interface A {}\nexport { A }' })).toEqual(['index.ts:1 A'])
  })

  it('need one comment, and those of other packages and of no entry need none', () => {
    const a =
      '/** One. */\nexport function one(): void\nexport function one(x?: number): void {}\nexport const own = 1'
    expect(
      check({ 'index.ts': "export { one } from './a.js'\nexport { two } from 'other'", 'a.ts': a }),
    ).toEqual([])
  })
})

describe('imports of programs without types', () => {
  const files = [
    {
      path: 'packages/sample/package.json',
      text: JSON.stringify({
        name: '@oddflow/sample',
        exports: { '.': './dist/index.js', './node': './dist/node/index.js' },
      }),
    },
    {
      path: 'packages/sample/src/index.ts',
      text: "export { one } from './a.js'\nexport { three } from 'other'",
    },
    { path: 'packages/sample/src/node/index.ts', text: 'export const two = 2' },
    { path: 'packages/sample/src/a.ts', text: 'export const one = 1\nexport const hidden = 0' },
  ]
  const check = (text: string): number[] =>
    linesOf(checkImports(readSources([...files, { path: 'packages/sample/bench/fit.mjs', text }])))

  it('must be exported by the package or the built file', () => {
    const text =
      "import { hidden } from '@oddflow/sample'\nimport {\n  one,\n  gone as one1,\n} from '../dist/index.js'\n" +
      "import { one as two } from '@oddflow/sample/node'"
    expect(check(text)).toEqual([1, 4, 6])
  })

  it('pass when they are, or come from elsewhere', () => {
    const text =
      "import { one as uno, three } from '@oddflow/sample'\nimport { two } from '@oddflow/sample/node'\n" +
      "import { hidden } from '../dist/a.js'\nimport { gone } from 'other'\nimport { x } from './x.mjs'"
    expect(check(text)).toEqual([])
  })
})

describe('links', () => {
  const files = [
    { path: 'README.md', text: '# OddFlow\n\n## Two commands\n\n## Two commands\n' },
    { path: 'docs/glossary.md', text: '# Glossary\n' },
  ]
  const check = (text: string): number[] => linesOf(checkLinks([...files, { path: 'docs/a.md', text }]))

  it('must lead to a file and a heading that are there', () => {
    const text = '[a](b.md)\n[b](../README.md#three)\n[c]: gone/d.md\n![e](e.svg)\n[f](#nowhere)'
    expect(check(text).sort()).toEqual([1, 2, 3, 4, 5])
  })

  it('pass when they do, lead elsewhere or are code', () => {
    const text =
      '# The `exp` of it\n[a](glossary.md), [b](../README.md#two-commands-1), [c](..), [d](../docs/)\n' +
      '[e](https://example.org/x.md) [f](#the-exp-of-it) `[g](h.md)`\n```md\n[i](j.md)\n```\n'
    expect(check(text)).toEqual([])
  })
})

describe('a method of a class', () => {
  it('must not be passed on without its object', () => {
    const folder = mkdtempSync(join(tmpdir(), 'oddflow-methods-'))
    const path = join(folder, 'store.ts')
    const lines = [
      'class Store { #kept = 1; save(): number { return this.#kept }; field = (): number => this.#kept; static open(): Store { return new Store() } }',
      'const store = Store.open()',
      'const fine = [store.save(), store.field, store.save.name, Store.open, () => store.save(), { ...{ a: 1 } }]',
      'export const passed = [store.save]',
      'export const { save } = store',
      'export const copied = { ...store, fine }',
      'export const { field } = store',
    ]
    writeFileSync(path, lines.join('\n'))
    try {
      expect(linesOf(checkMethods(folder, [path]))).toEqual([4, 5, 6])
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
