/**
 * Every package stands on its own: packed, checked by publint, installed into an empty folder, and the
 * sample of its README type-checked against the declarations and run there, with the output that
 * the README shows.
 *
 * One folder takes all packages, since an install is the slow part; another takes flows alone, to prove
 * that a package needs nothing but what it declares.
 *
 * Packing and installing is left out, and said to be, while all that it depends on (manifests, the bundler, this test)
 * has the hash that packed-inputs.sha256 keeps of the last time that all passed; `npm run slow:tests` never leaves it
 * out. Samples are run against the workspaces then. A run that passes keeps the hash anew, except where CI is set.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import ts from 'typescript'
import {
  afterAll,
  afterEach,
  beforeAll,
  describe,
  expect,
  it,
  type RunnerTask,
  type RunnerTestFile,
} from 'vitest'
import { root } from '../tools/workspace/layout.mjs'
import {
  installPacked,
  makeTemporaryFolder,
  packAll,
  runProgram,
  workspaces,
} from './support/packed-packages.js'
import { findReadmeSample } from './support/readme-sample.js'

const libraries = workspaces.filter(({ manifest }) => manifest.exports !== undefined)
const apps = workspaces.filter(({ directory }) => directory.startsWith('apps/'))
const folder = makeTemporaryFolder()
const together = join(folder, 'together')
let tarballs = new Map<string, string>()

const inputs = [
  '.npmrc',
  'pnpm-workspace.yaml',
  'pnpm-lock.yaml',
  'test/packages.test.ts',
  'test/support/packed-packages.ts',
  'tools/workspace/bundle-page.mjs',
  'tools/workspace/bundle-program.mjs',
  'tools/workspace/licences.mjs',
  'tools/workspace/copy-demo.mjs',
  ...workspaces.map(({ directory }) => `${directory}/package.json`),
]
const hash = createHash('sha256')
for (const name of inputs) hash.update(`${name}\0`).update(readFileSync(join(root, name)))
const inputsHash = hash.digest('hex')
const keptPath = join(root, 'test/packed-inputs.sha256')
const isPacked = process.env.ODDFLOW_TESTS === 'all' || readFileSync(keptPath, 'utf8').trim() !== inputsHash
const unpacked = 'no manifest changed since they last passed (test/packed-inputs.sha256): npm run slow:tests'

beforeAll(async () => {
  if (isPacked) {
    tarballs = await packAll(join(folder, 'tarballs'))
    await installPacked(together, [...tarballs.keys()], tarballs)
    return
  }
  mkdirSync(together, { recursive: true })
  writeFileSync(join(together, 'package.json'), '{ "type": "module" }\n')
  for (const { directory, manifest } of workspaces) {
    const place = join(together, 'node_modules', manifest.name)
    mkdirSync(dirname(place), { recursive: true })
    symlinkSync(join(root, directory), place)
  }
})
const hasPassed = (task: RunnerTask): boolean =>
  task.type === 'test' ? task.result?.state === 'pass' : task.tasks.every(hasPassed)
let file: RunnerTestFile | undefined
afterEach(({ task }) => {
  file = task.file
})
afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
  const isWhole = file?.tasks.every(hasPassed) === true
  if (isPacked && isWhole && process.env.CI === undefined) writeFileSync(keptPath, `${inputsHash}\n`)
})

const readmeOf = (name: string): string =>
  readFileSync(join(together, 'node_modules', name, 'README.md'), 'utf8')

const sampleOfReadme = (name: string) => {
  const found = findReadmeSample(readmeOf(name))
  if (found === undefined) throw new Error(`the README of ${name} has no \`\`\`ts sample`)
  return found
}

/** What tsc says of all samples, each in the folder of a user whose settings are strict: `FILE: what is wrong`. */
function typeErrors(): string[] {
  const files = libraries.map(({ manifest: { name } }) => {
    const file = join(together, 'samples', name, 'sample.ts')
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, sampleOfReadme(name).code)
    return file
  })
  const options: ts.CompilerOptions = {
    strict: true,
    noEmit: true,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    target: ts.ScriptTarget.ES2022,
    types: ['node'],
    typeRoots: [join(root, 'node_modules', '@types')],
    skipLibCheck: true,
  }
  return ts.getPreEmitDiagnostics(ts.createProgram(files, options)).map(({ file, messageText }) => {
    return `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`
  })
}

describe.each(workspaces)('$manifest.name', ({ manifest }) => {
  it('is packed without a complaint of publint', async (context) => {
    if (!isPacked) context.skip(unpacked)
    const tarball = readFileSync(tarballs.get(manifest.name)!)
    const bytes = tarball.buffer.slice(
      tarball.byteOffset,
      tarball.byteOffset + tarball.byteLength,
    ) as ArrayBuffer
    const { messages, pkg } = await publint({ pack: { tarball: bytes }, strict: true })
    expect(messages.map((message) => formatMessage(message, pkg!))).toEqual([])
  })

  it('packs its README, its changelog, its licence, its output and what else it says, and nothing more', (context) => {
    if (!isPacked) context.skip(unpacked)
    const installed = join(together, 'node_modules', manifest.name)
    const names = readdirSync(installed).filter((name) => name !== 'node_modules')
    // changesets make the changelogs at a release
    const packed = manifest.files.filter((name) => name !== 'CHANGELOG.md')
    expect(names.filter((name) => name !== 'CHANGELOG.md').sort()).toEqual([...packed, 'package.json'].sort())
    expect(manifest.files).toEqual(expect.arrayContaining(['CHANGELOG.md', 'LICENSE', 'README.md', 'dist']))
    expect(readFileSync(join(installed, 'package.json'), 'utf8')).not.toContain('workspace:')
  })
})

describe.each(libraries)('the library $manifest.name', ({ manifest }) => {
  it('has types that fit its modules for every resolver of ESM, as attw sees it', async (context) => {
    if (!isPacked) context.skip(unpacked)
    const analysis = await checkPackage(
      createPackageFromTarballData(readFileSync(tarballs.get(manifest.name)!)),
    )
    if (analysis.types === false) throw new Error('it has no types')
    // the profile esm-only
    const isOfEsm = (kind: string): boolean => kind !== 'node10' && kind !== 'node16-cjs'
    expect(
      analysis.problems.filter((each) => !('resolutionKind' in each) || isOfEsm(each.resolutionKind)),
    ).toEqual([])
  })
})

it('the README samples type-check against the declarations', () => {
  expect(typeErrors()).toEqual([])
})

describe.each(libraries)('the README sample of $manifest.name', ({ manifest }) => {
  const sampleFolder = join(together, 'samples', manifest.name)

  it('runs, and prints what the README shows', async () => {
    const { code, output } = sampleOfReadme(manifest.name)
    expect(code).toContain(`from '${manifest.name}`)
    const { outputText } = ts.transpileModule(code, {
      compilerOptions: {
        module: ts.ModuleKind.ESNext,
        target: ts.ScriptTarget.ES2022,
        verbatimModuleSyntax: true,
      },
    })
    mkdirSync(sampleFolder, { recursive: true })
    writeFileSync(join(sampleFolder, 'sample.mjs'), outputText)
    const ran = await runProgram(process.execPath, ['sample.mjs'], sampleFolder)
    expect(ran, ran.stderr).toMatchObject({ code: 0, stderr: '' })
    if (output !== undefined) expect(ran.stdout.trimEnd()).toBe(output.trimEnd())
  })
})

describe.each(apps)('the program $manifest.name', ({ manifest }) => {
  it('starts where it is installed, prints its version alone, and brings its manual page', async (context) => {
    if (!isPacked) context.skip(unpacked)
    const [bin] = Object.keys(manifest.bin!)
    const ran = await runProgram('npx', ['--no-install', bin!, '--version'], together)
    expect(ran).toEqual({ code: 0, stdout: `${manifest.version}\n`, stderr: '' })
    const page = readFileSync(join(together, 'node_modules', manifest.name, manifest.man![0]!), 'utf8')
    expect(page).toMatch(
      new RegExp(`^\\.TH ${manifest.name.toUpperCase()} 1 "" "${manifest.name} ${manifest.version}"`),
    )
  })
})

const bundled = apps.filter(({ manifest }) => manifest.dependencies === undefined)

describe.each(bundled)('the bundled program $manifest.name', ({ manifest }) => {
  const alone = join(folder, `alone-${manifest.name}`)
  const [bin] = Object.keys(manifest.bin!)
  beforeAll(async () => {
    if (isPacked) await installPacked(alone, [manifest.name], tarballs)
  })

  it('needs no other package, and says under what terms it brings what it is made of', async (context) => {
    if (!isPacked) context.skip(unpacked)
    const names = readdirSync(join(alone, 'node_modules')).filter((name) => !name.startsWith('.'))
    expect(names).toEqual([manifest.name])
    const terms = readFileSync(join(alone, 'node_modules', manifest.name, 'dist/LICENSES.txt'), 'utf8')
    for (const name of Object.keys(manifest.devDependencies!)) {
      const isIn =
        !/^(?:@types\/|typescript$|vitest$|esbuild$|fast-check$|smtp-server$|@valibot\/to-json-schema$)/.test(
          name,
        ) &&
        // the page of the trainer is published with the site
        (name !== 'preact' || manifest.name !== 'oddflow')
      expect(terms.includes(`\n${name} `) || terms.startsWith(`${name} `), name).toBe(isIn)
    }
    const bom = JSON.parse(
      readFileSync(join(alone, 'node_modules', manifest.name, 'dist/bom.cdx.json'), 'utf8'),
    ) as {
      metadata: { component: { name: string } }
      components: { name: string; version: string; purl: string; licenses: { expression: string }[] }[]
    }
    expect(bom).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.6' })
    expect(bom.metadata.component.name).toBe(manifest.name)
    const heads = bom.components.map(
      (each) => `${each.name} ${each.version} (${each.licenses[0]!.expression})`,
    )
    for (const head of heads) expect(`\n${terms}`).toContain(`\n${head}\n`)
    expect(heads.length).toBe(terms.split(`\n${'-'.repeat(80)}\n`).length)
    expect(bom.components.every(({ purl }) => /^pkg:npm\/(?:%40[\w.-]+\/)?[\w.-]+@\d/.test(purl))).toBe(true)
    const ran = await runProgram('npx', ['--no-install', bin!, '--version'], alone)
    expect(ran).toEqual({ code: 0, stdout: `${manifest.version}\n`, stderr: '' })
  })
})

describe.each(bundled.filter(({ manifest }) => manifest.files.includes('demo')))(
  'the demonstration of $manifest.name',
  ({ manifest }) => {
    it.runIf(manifest.files.includes('demo'))(
      'runs its demo on the captures that it brings',
      async (context) => {
        if (!isPacked) context.skip(unpacked)
        const alone = join(folder, `alone-${manifest.name}`)
        const [bin] = Object.keys(manifest.bin!)
        const ran = await runProgram('npx', ['--no-install', bin!, 'demo', '-o', 'demo.html'], alone)
        expect(ran, ran.stderr).toMatchObject({ code: 0, stderr: '' })
        expect(ran.stdout).toContain(join(alone, 'demo.html'))
        expect(readFileSync(join(alone, 'demo.html'), 'utf8')).toMatch(/^<!doctype html>/i)
        const scorer = 'python/oddflow.py'
        const installed = readFileSync(join(alone, 'node_modules', manifest.name, scorer), 'utf8')
        expect(installed).toBe(readFileSync(join(root, scorer), 'utf8'))
      },
    )
  },
)

describe('a package alone', () => {
  it('brings what it declares and nothing else of ours', async (context) => {
    if (!isPacked) context.skip(unpacked)
    const alone = join(folder, 'alone')
    await installPacked(alone, ['@oddflow/flows'], tarballs)
    expect(readdirSync(join(alone, 'node_modules', '@oddflow')).sort()).toEqual(['capture', 'core', 'flows'])
    const program = "import('@oddflow/flows').then((flows) => console.log(Object.keys(flows).length > 0))"
    const ran = await runProgram(process.execPath, ['--input-type=module', '--eval', program], alone)
    expect(ran).toEqual({ code: 0, stdout: 'true\n', stderr: '' })
  })
})
