/** The file of targets: YAML, of which JSON is a part. Paths in it are relative to the file, `~/` is the user's home. */
import { readFileSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { FormatError } from '@oddflow/core'
import { parseDocument } from 'yaml'
import { inFile } from '../errors.js'
import { checkTargets, type Target } from './target.js'

const MAXIMUM_BYTES = 100_000

/** Throws an error that begins with the path and says the line, or the field, that is wrong. */
export function readTargets(path: string): Target[] {
  return inFile(path, () => {
    const { size } = statSync(path)
    if (size > MAXIMUM_BYTES) throw new FormatError('targets', `${size} bytes are no list of targets`)
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

function withPaths(target: Target, base: string): Target {
  const at = (path: string): string =>
    path.startsWith('~/') ? join(homedir(), path.slice(2)) : resolve(base, path)
  /** A bare word is a command to be looked for. */
  const command = (word: string): string => (word.includes('/') ? at(word) : word)
  switch (target.kind) {
    case 'local':
      return target
    case 'emulated':
      return {
        ...target,
        emulator: command(target.emulator),
        node: at(target.node),
        libraries: at(target.libraries),
      }
    case 'ssh':
      return {
        ...target,
        ...(target.identityFile === undefined ? {} : { identityFile: at(target.identityFile) }),
        ...(target.knownHostsFile === undefined ? {} : { knownHostsFile: at(target.knownHostsFile) }),
        // ssh's own word for no configuration
        ...(target.configFile === undefined || target.configFile === 'none'
          ? {}
          : { configFile: at(target.configFile) }),
        ...(target.bringNode === undefined ? {} : { bringNode: at(target.bringNode) }),
      }
  }
}
