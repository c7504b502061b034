/** Owners and rights of the state folder and of the secrets that outputs read. */
import { lstatSync, readdirSync, type Stats, statSync } from 'node:fs'
import { join } from 'node:path'
import { FileError } from '@oddflow/program'
import type { Settings } from '../config/settings.js'
import { secretsOf } from '../outputs/registry.js'

const ROOT = 0
const OTHERS_WRITE = 0o022
const OTHERS_ANYTHING = 0o077
const WORLD_READS = 0o004
/** Further names are only counted. */
const MAXIMUM_TOLD = 4

/** null if the system has no users. */
export function userId(): number | null {
  return process.geteuid?.() ?? null
}

/** Files that others could change or read, or that another user owns: a line each, with what to do. */
export function looseRights(
  { state, outputs }: Pick<Settings, 'state' | 'outputs'>,
  user: number | null,
): string[] {
  if (user === null) return []
  const found: string[] = []
  const tell = (path: string, { uid, mode }: Stats, forbidden: number, owners: readonly number[]): void => {
    if (!owners.includes(uid)) {
      found.push(
        `${path}: belongs to user ${uid}, and the agent is user ${user}; give it to the agent (chown ${user})`,
      )
    }
    const loose = mode & forbidden
    if (loose === 0) return
    const what = (loose & OTHERS_WRITE) === 0 ? 'read' : 'change'
    const right = (mode & 0o777 & ~forbidden).toString(8)
    found.push(
      `${path}: others than the agent can ${what} it (mode ${(mode & 0o777).toString(8)}); chmod ${right}`,
    )
  }
  for (const path of outputs.flatMap(secretsOf)) {
    const stats = statsOf(path, statSync)
    // a secret of root that its group may read is usual for a service
    if (stats?.isFile() === true) tell(path, stats, OTHERS_WRITE | WORLD_READS, [user, ROOT])
  }
  const folder = state === null ? null : statsOf(state, statSync)
  if (state === null || folder?.isDirectory() !== true) return found
  tell(state, folder, OTHERS_ANYTHING, [user])
  const foreign: string[] = []
  for (const path of filesUnder(state)) {
    const stats = statsOf(path)
    if (stats === null || stats.isSymbolicLink()) continue
    const isSecret = path.endsWith('dashboard-token.json')
    if (stats.uid !== user) foreign.push(path)
    // a folder that no other user may enter protects its files
    else if ((folder.mode & OTHERS_ANYTHING) !== 0)
      tell(path, stats, isSecret ? OTHERS_ANYTHING : OTHERS_WRITE, [user])
  }
  const names = foreign.slice(0, MAXIMUM_TOLD).join(', ')
  const more = foreign.length > MAXIMUM_TOLD ? ` and ${foreign.length - MAXIMUM_TOLD} more` : ''
  if (foreign.length > 0) {
    found.push(
      `${names}${more}: another user's, but must belong to the agent's user ${user}; chown -R ${user} ${state}`,
    )
  }
  return found
}

/** Throws FileError if another user owns the state folder: its agent could not read files that this user writes. */
export function checkOwnFolder(folder: string): void {
  const user = userId()
  const stats = statsOf(folder, statSync)
  if (user === null || stats === null || stats.uid === user) return
  throw new FileError(
    'file.owner',
    `${folder}: belongs to user ${stats.uid}, who could not read what user ${user} writes there; run this as that user (sudo -u '#${stats.uid}' …), or start the agent`,
  )
}

function filesUnder(folder: string): string[] {
  return [folder, join(folder, 'models'), join(folder, 'spool')].flatMap((each) => {
    try {
      return readdirSync(each).map((name) => join(each, name))
    } catch {
      return []
    }
  })
}

/** Of a link itself, unless `look` follows it; null if there is nothing. */
function statsOf(path: string, look: (path: string) => Stats = lstatSync): Stats | null {
  try {
    return look(path)
  } catch {
    return null
  }
}
