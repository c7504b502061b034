/**
 * The packages in the hands of users: the library and the libraries, packed and installed, in every Node that is
 * maintained, in Bun and in Deno, and under the compilers and resolvers that users have. `npm run slow:tests` alone, since
 * it downloads runtimes.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { root } from '../tools/workspace/layout.mjs'
import {
  installPacked,
  makeTemporaryFolder,
  packAll,
  runProgram,
  workspaces,
} from './support/packed-packages.js'
import { findReadmeSample } from './support/readme-sample.js'

const isAsked = process.env.ODDFLOW_TESTS === 'all'
const folder = makeTemporaryFolder()
const user = join(folder, 'user')
const libraries = workspaces
  .filter(({ manifest }) => manifest.exports !== undefined)
  .map(({ manifest }) => manifest.name)
const nameOf = (library: string): string => library.replace(/\W+/g, '-').replace(/^-/, '')

const sampleOf = (library: string) =>
  findReadmeSample(readFileSync(join(user, 'node_modules', library, 'README.md'), 'utf8'))!

beforeAll(async () => {
  if (!isAsked) return
  const tarballs = await packAll(join(folder, 'tarballs'))
  await installPacked(user, [...tarballs.keys()], tarballs)
  for (const library of libraries) {
    const { code } = sampleOf(library)
    const { outputText } = ts.transpileModule(code, {
      compilerOptions: {
        module: ts.ModuleKind.ESNext,
        target: ts.ScriptTarget.ES2022,
        verbatimModuleSyntax: true,
      },
    })
    writeFileSync(join(user, `${nameOf(library)}.mjs`), outputText)
    mkdirSync(join(user, 'typed'), { recursive: true })
    writeFileSync(join(user, 'typed', `${nameOf(library)}.ts`), code)
  }
}, 600_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe.runIf(isAsked)('the README samples', () => {
  it.each([
    ['node@20', 'node', []],
    ['node@22', 'node', []],
    ['node@24', 'node', []],
    ['bun@1', 'bun', []],
    ['deno@2', 'deno', ['run', '--allow-read', '--allow-write', '--allow-env', '--allow-sys']],
  ])(
    'print under %s what the READMEs show',
    async (runtime, program, args) => {
      for (const library of libraries) {
        const file = `${nameOf(library)}.mjs`
        const ran = await runProgram(
          'npx',
          ['--yes', '--package', runtime, '--', program, ...args, file],
          user,
        )
        expect(ran, `${runtime} ${library}: ${ran.stderr}`).toMatchObject({ code: 0 })
        // Bun and Deno show typed arrays in another way
        const { output } = sampleOf(library)
        if (output !== undefined && program === 'node') expect(ran.stdout.trimEnd()).toBe(output.trimEnd())
      }
    },
    600_000,
  )

  it.each([
    ['typescript@5', 'nodenext', 'nodenext'],
    ['typescript@5', 'esnext', 'bundler'],
    ['typescript@6', 'nodenext', 'nodenext'],
    ['typescript@6', 'esnext', 'bundler'],
  ])(
    'are correct for %s, module %s, resolution %s',
    async (compiler, module, moduleResolution) => {
      const base = {
        module,
        moduleResolution,
        strict: true,
        exactOptionalPropertyTypes: true,
        noEmit: true,
        target: 'es2022',
        lib: ['es2022', 'dom'],
        skipLibCheck: false,
      }
      const ofNode = { types: ['node'], typeRoots: [join(root, 'node_modules', '@types')] }
      const needsNode = ['@oddflow/program']
      const groups = [
        { names: needsNode, more: ofNode },
        // these declare nothing of Node's types, which a page does not have
        { names: libraries.filter((name) => !needsNode.includes(name)), more: { types: [] } },
      ]
      for (const { names, more } of groups) {
        const project = join(user, 'tsconfig.json')
        const files = names.map((name) => `typed/${nameOf(name)}.ts`)
        writeFileSync(project, JSON.stringify({ compilerOptions: { ...base, ...more }, files }))
        const ran = await runProgram(
          'npx',
          ['--yes', '--package', compiler, '--', 'tsc', '-p', project],
          user,
        )
        expect(ran).toEqual({ code: 0, stdout: '', stderr: '' })
      }
    },
    600_000,
  )
})

it.runIf(!isAsked)('are tried by npm run slow:tests alone', (context) => {
  context.skip('downloads five runtimes and two compilers: npm run slow:tests -- test/consumers')
})
