/**
 * Packages as their users get them: packed by pnpm (which turns workspace:^ into a version), installed by
 * npm into an empty folder outside the checkout.
 *
 * Every @oddflow package comes from its own tarball, also where it is a dependency of another one
 * (`overrides`), so nothing of ours is ever taken from a registry. Foreign dependencies come from npm's
 * cache, or from the registry where the cache has none.
 */
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { toolEnvironment } from '../../tools/workspace/environment.mjs'
import { pnpmDirectory } from '../../tools/workspace/install.mjs'
import { readWorkspaces, root } from '../../tools/workspace/layout.mjs'

export interface Workspace {
  directory: string
  manifest: {
    name: string
    version: string
    files: string[]
    bin?: Record<string, string>
    man?: readonly string[]
    exports?: Record<string, unknown>
    dependencies?: Record<string, string>
    devDependencies?: Record<string, string>
  }
}

export const workspaces = readWorkspaces() as Workspace[]

export interface Outcome {
  code: number
  stdout: string
  stderr: string
}

/** Runs a program without a shell; a non-zero exit is an outcome, not an exception. */
export async function runProgram(command: string, args: string[], cwd: string): Promise<Outcome> {
  const options = { cwd, env: toolEnvironment([await pnpmDirectory()]), maxBuffer: 64 * 1024 * 1024 }
  try {
    const { stdout, stderr } = await promisify(execFile)(command, args, options)
    return { code: 0, stdout, stderr }
  } catch (error) {
    const { code, stdout = '', stderr = '' } = error as Partial<Outcome>
    return { code: typeof code === 'number' ? code : 1, stdout, stderr: stderr || String(error) }
  }
}

export async function runOrThrow(command: string, args: string[], cwd: string): Promise<string> {
  const { code, stdout, stderr } = await runProgram(command, args, cwd)
  if (code !== 0)
    throw new Error(`${command} ${args.join(' ')} in ${cwd}: exit ${code}\n${stdout}\n${stderr}`)
  return stdout
}

export const makeTemporaryFolder = (): string => mkdtempSync(join(tmpdir(), 'oddflow-packages-'))

/** Packs every workspace into a folder of its own under `folder`; the tarball's path by package name. */
export async function packAll(folder: string): Promise<Map<string, string>> {
  const tarballs = new Map<string, string>()
  await Promise.all(
    workspaces.map(async ({ directory, manifest }) => {
      const destination = join(folder, directory)
      mkdirSync(destination, { recursive: true })
      await runOrThrow('pnpm', ['pack', '--pack-destination', destination], join(root, directory))
      const [file] = readdirSync(destination)
      tarballs.set(manifest.name, join(destination, file!))
    }),
  )
  return tarballs
}

/** Installs `names` from their tarballs into the empty folder `folder`. */
export async function installPacked(
  folder: string,
  names: string[],
  tarballs: Map<string, string>,
): Promise<void> {
  mkdirSync(folder, { recursive: true })
  const fileOf = (name: string): string => `file:${tarballs.get(name)!}`
  const manifest = {
    name: 'user-of-oddflow',
    private: true,
    type: 'module',
    dependencies: Object.fromEntries(names.map((name) => [name, fileOf(name)])),
    overrides: Object.fromEntries(
      [...tarballs.keys()].map((name) => [name, names.includes(name) ? `$${name}` : fileOf(name)]),
    ),
  }
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
  await runOrThrow(
    'npm',
    ['install', '--prefer-offline', '--no-audit', '--no-fund', '--ignore-scripts'],
    folder,
  )
}
