/**
 * What README.md shows is what happens: its console blocks are run, in order, and their output compared with
 * what stands below each command, and its table has every package. So are the examples of the guide for developers. `UPDATE_README=1 npm test -- test/readme` writes the output in instead.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { afterAll, expect, it } from 'vitest'
import { readWorkspaces } from '../tools/workspace/layout.mjs'
import { findReadmeSample } from './support/readme-sample.js'

const root = fileURLToPath(new URL('..', import.meta.url))
const readme = join(root, 'README.md')
const folder = mkdtempSync(join(tmpdir(), 'oddflow-readme-'))
symlinkSync(join(root, 'test'), join(folder, 'test'))
mkdirSync(join(folder, 'node_modules'))
writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
symlinkSync(join(root, 'apps/trainer'), join(folder, 'node_modules', 'oddflow'))
mkdirSync(join(folder, 'node_modules', '@oddflow'))
for (const name of ['core', 'detectors', 'online'])
  symlinkSync(join(root, 'packages', name), join(folder, 'node_modules', '@oddflow', name))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const PREFIX = '$ npm run -s oddflow -- '

it('shows true output', () => {
  const text = readFileSync(readme, 'utf8')
  let commands = 0
  const actual = text.replace(/```console\n(\$ .*)\n[\s\S]*?```/g, (_block, command: string) => {
    commands++
    expect(command.startsWith(PREFIX)).toBe(true)
    return `\`\`\`console\n${command}\n${run(command.slice(PREFIX.length))}\`\`\``
  })
  expect(commands).toBeGreaterThanOrEqual(4)
  if (process.env.UPDATE_README === '1') writeFileSync(readme, actual)
  expect(actual).toBe(process.env.UPDATE_README === '1' ? readFileSync(readme, 'utf8') : text)
}, 120_000)

it('begins with code of the library, which prints what stands below it', () => {
  const text = readFileSync(readme, 'utf8')
  const { code, output } = findReadmeSample(text)!
  expect(text.indexOf('```')).toBe(text.indexOf('```ts'))
  expect(code).toMatch(/^import \{ fit, readFlows \} from 'oddflow'\n/)
  writeFileSync(join(folder, 'sample.mjs'), code)
  const ran = spawnSync(process.execPath, ['sample.mjs'], { cwd: folder, encoding: 'utf8' })
  expect(ran, ran.stderr).toMatchObject({ status: 0, stderr: '' })
  expect(ran.stdout).toBe(output)
})

it('has a guide for developers whose examples print what stands below them', () => {
  const path = join(root, 'docs/guides/developers.md')
  const text = readFileSync(path, 'utf8')
  let examples = 0
  const actual = text.replace(
    /(```ts\n([\s\S]*?)```\n\n```text\n)[\s\S]*?```/g,
    (_all, before, code: string) => {
      writeFileSync(join(folder, `example-${++examples}.ts`), code)
      writeFileSync(join(folder, 'example.mjs'), withoutTypes(code))
      const ran = spawnSync(process.execPath, ['example.mjs'], { cwd: folder, encoding: 'utf8' })
      expect(ran, `example ${examples}: ${ran.stderr}`).toMatchObject({ status: 0, stderr: '' })
      return `${before}${ran.stdout}\`\`\``
    },
  )
  expect(examples).toBe(text.match(/^```ts$/gm)?.length)
  expect(typeErrors(Array.from({ length: examples }, (_, i) => join(folder, `example-${i + 1}.ts`)))).toEqual(
    [],
  )
  if (process.env.UPDATE_README === '1') writeFileSync(path, actual)
  expect(actual).toBe(process.env.UPDATE_README === '1' ? readFileSync(path, 'utf8') : text)
})

it('has a row for every package, and leads to its README', () => {
  const rows = readFileSync(readme, 'utf8').matchAll(
    /^\| \[([^\]]+)\]\(((?:apps|packages)\/[^)]+)\/README\.md\) \|/gm,
  )
  const listed = [...rows].map(([, name, directory]) => `${name} in ${directory}`)
  const workspaces = readWorkspaces() as { directory: string; manifest: { name: string } }[]
  expect(listed.sort()).toEqual(workspaces.map((w) => `${w.manifest.name} in ${w.directory}`).sort())
})

const compilerOptions: ts.CompilerOptions = {
  strict: true,
  noEmit: true,
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  types: ['node'],
  typeRoots: [join(root, 'node_modules/@types')],
  skipLibCheck: true,
}

function withoutTypes(code: string): string {
  return ts.transpileModule(code, {
    compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext },
  }).outputText
}

function typeErrors(files: string[]): string[] {
  return ts
    .getPreEmitDiagnostics(ts.createProgram(files, compilerOptions))
    .map(({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`)
}

/** Runs the program as a shell would for words and double quotes; gives both streams as a terminal shows them. */
function run(words: string): string {
  const list = [...words.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '')
  const ran = spawnSync(process.execPath, [join(root, 'apps/trainer/dist/main.js'), ...list], {
    cwd: folder,
    encoding: 'utf8',
  })
  expect(ran.status).toBe(0)
  return ran.stdout + ran.stderr
}
