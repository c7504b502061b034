/**
 * Targets: the machines that models are tested on, in one YAML or JSON file. Hosts and users have a narrow alphabet and
 * cannot begin with a hyphen, since they become words of a command line.
 */
import { readFileSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { FormatError } from '@oddflow/core'
import { parseDocument } from 'yaml'
import { z } from 'zod'
import { checkShape, inFile } from '../files.js'
import { EXPECTED_NAME, SHORT_NAME } from './machine-description.js'

/** As trials and tables name machines. */
const name = z.string().regex(SHORT_NAME, EXPECTED_NAME)
const path = z
  .string()
  .min(1)
  .max(1000)
  .regex(/^[^\p{C}]*$/u, 'expected a path without control characters')
const timeoutSeconds = z.number().int().min(1).max(604_800).default(3600)

const local = z.strictObject({
  name,
  kind: z.literal('local'),
  /** Megabytes (2^20) that the whole process may take; Node alone needs about 45. */
  memoryCeilingMegabytes: z.number().int().min(32).max(1_048_576).optional(),
  timeoutSeconds,
})

const ssh = z.strictObject({
  name,
  kind: z.literal('ssh'),
  host: z
    .string()
    .regex(
      /^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$|^[0-9a-fA-F:]{2,45}$/,
      'expected a host name or address',
    ),
  user: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/, 'expected a user name')
    .optional(),
  port: z.number().int().min(1).max(65_535).optional(),
  identityFile: path.optional(),
  /** Instead of the user's own known_hosts. */
  knownHostsFile: path.optional(),
  /** Instead of the user's own ssh configuration. */
  configFile: path.optional(),
  /** Command of Node there; default `node`. */
  node: path.optional(),
  /** A Node of this machine that is carried there. */
  bringNode: path.optional(),
  /** Where the bundle is unpacked there, in a folder of its own; default /tmp. */
  directory: path
    .regex(/^\/[A-Za-z0-9._/-]*$/, 'expected an absolute path of letters, digits, dots, hyphens')
    .default('/tmp'),
  timeoutSeconds,
})

const emulated = z.strictObject({
  name,
  kind: z.literal('emulated'),
  /** qemu's user-mode emulator: a command or a path. */
  emulator: path,
  /** Node of the other architecture. */
  node: path,
  /** Root of its libraries, for the emulator's -L. */
  libraries: path,
  /** For the emulator's -cpu. */
  cpu: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9_,=.+-]{0,99}$/, 'expected a processor model of the emulator')
    .optional(),
  timeoutSeconds,
})

const target = z.discriminatedUnion('kind', [local, ssh, emulated])
const targetsFile = z.strictObject({ format: z.literal(1), targets: z.array(target).min(1).max(100) })

export type LocalTarget = z.infer<typeof local>
export type SshTarget = z.infer<typeof ssh>
export type EmulatedTarget = z.infer<typeof emulated>
export type Target = z.infer<typeof target>

/** Throws FormatError that names the field. */
function checkTargets(value: unknown): Target[] {
  const { targets } = checkShape(targetsFile, value, 'targets')
  const names = targets.map((one) => one.name)
  const twice = names.find((one, i) => names.indexOf(one) !== i)
  if (twice !== undefined) throw new FormatError('targets', `${twice}: two targets have that name`)
  for (const one of targets) {
    if (one.kind === 'ssh' && one.node !== undefined && one.bringNode !== undefined) {
      throw new FormatError('targets', `${one.name}: node and bringNode exclude each other`, {
        field: 'node',
      })
    }
  }
  return targets
}

const MAXIMUM_BYTES = 100_000

/**
 * The file of targets: YAML, of which JSON is a part. Paths in it are relative to the file, `~/` is the user's home.
 * Throws an error that begins with the path and says the line, or the field, that is wrong.
 */
export function readTargets(path: string): Target[] {
  return inFile(path, () => {
    const { size } = statSync(path)
    if (size > MAXIMUM_BYTES)
      throw new FormatError('targets', `${size} bytes are too many for a list of targets`)
    const document = parseDocument(readFileSync(path, 'utf8'), { prettyErrors: true, uniqueKeys: true })
    const [problem] = [...document.errors, ...document.warnings]
    if (problem !== undefined) {
      const line = problem.linePos?.[0].line
      const [message] = problem.message.split('\n')
      throw new FormatError('targets', `${line === undefined ? '' : `line ${line}: `}${message}`)
    }
    return checkTargets(toPlain(document)).map((target) => withPaths(target, dirname(resolve(path))))
  })
}

/** An alias repeated without end is refused by the library, with an error of its own. */
function toPlain(document: ReturnType<typeof parseDocument>): unknown {
  try {
    return document.toJS({ maxAliasCount: 20 })
  } catch (error) {
    throw new FormatError('targets', error instanceof Error ? error.message : String(error))
  }
}

/** Fields that are paths on this machine. */
const PATHS: Readonly<Record<Target['kind'], readonly string[]>> = {
  local: [],
  ssh: ['identityFile', 'knownHostsFile', 'configFile', 'bringNode'],
  emulated: ['emulator', 'node', 'libraries'],
}

function withPaths(target: Target, base: string): Target {
  const at = (path: string): string =>
    path.startsWith('~/') ? join(homedir(), path.slice(2)) : resolve(base, path)
  const fields = Object.entries(target).map(([name, value]) => {
    const isWord =
      // a command to be looked for, and ssh's own word for no configuration
      (name === 'emulator' && !`${value}`.includes('/')) || (name === 'configFile' && value === 'none')
    return [name, PATHS[target.kind].includes(name) && !isWord ? at(`${value}`) : value]
  })
  return Object.fromEntries(fields) as Target
}
