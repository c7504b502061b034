/** The state folder of a command, and how commands print. */
import { existsSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { fileError, jsonLine, printable, UsageError } from '@oddflow/program'
import { stateIn } from '../config/settings-from.js'
import { ControlError, openControlSocket } from '../devices/control-socket.js'
import { nodeFileSystem } from '../files/file-system.js'
import { checkOwnFolder } from '../files/rights.js'
import { standardErrorLog } from '../log.js'

export type ListFormat = 'text' | 'json'

/** JSON lines, or a table whose columns are as wide as their widest cell; cells are made printable. */
export function printList<T>(
  format: ListFormat,
  items: readonly T[],
  columns: Readonly<Record<string, (item: T) => string>>,
): void {
  if (format === 'json') {
    for (const item of items) process.stdout.write(`${jsonLine(item)}\n`)
    return
  }
  const cells = Object.values(columns)
  const table = [Object.keys(columns), ...items.map((item) => cells.map((cell) => printable(cell(item))))]
  const widths = cells.map((_, column) => Math.max(...table.map((row) => row[column].length)))
  for (const row of table) {
    const line = row.map((cell, column) => cell.padEnd(widths[column])).join('  ')
    process.stdout.write(`${line.trimEnd()}\n`)
  }
}

/** Prints what was done. Refusals go to the log and make the command fail. */
export function printResults<T extends { readonly refused: string | null }>(
  results: readonly T[],
  doneText: (result: T) => string,
): void {
  for (const result of results) {
    if (result.refused === null) process.stdout.write(`${printable(doneText(result))}\n`)
    else standardErrorLog.error(result.refused)
  }
  if (results.some(({ refused }) => refused !== null)) process.exitCode = 1
}

export interface StateOptions {
  readonly state?: string
  readonly config?: string
}

/** Attempts to hold the folder: another command holds it for some hundredths of a second. */
const PAUSE_MILLIS = 100
const ATTEMPTS = 10

/**
 * Asks a running agent to act, or acts in the state folder while it holds the folder: two commands at a time, or a command and a starting
 * agent, would undo each other's work.
 * @param ask - resolves to null if no agent runs.
 */
export async function askOrAct<T>(
  state: string,
  ask: () => Promise<T | null>,
  act: () => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      const answer = await ask()
      if (answer !== null) return answer
      checkOwnFolder(state)
      const held = await openControlSocket(state)
      try {
        return await act()
      } finally {
        await held.close()
      }
    } catch (error) {
      const isBusy = error instanceof ControlError && ['control.taken', 'control.busy'].includes(error.code)
      if (!isBusy) throw error
      if (attempt === ATTEMPTS) {
        throw new ControlError(error.code, `${state}: the running agent does not offer this; stop it first`)
      }
      await pause(PAUSE_MILLIS)
    }
  }
}

/** The agent's form of a key: a MAC address with colons, in lowercase. */
export function keyOf(given: string): string {
  const key = given.toLowerCase()
  return /^[0-9a-f]{2}(-[0-9a-f]{2}){5}$/.test(key) ? key.replaceAll('-', ':') : key
}

/** The configuration that setup writes. */
export const USUAL_CONFIG = '/etc/oddflow/agent.yaml'

/** Rejects with UsageError or FileError. A missing folder is an error: its name may be misspelt. */
export async function stateOf(options: StateOptions): Promise<string> {
  const { state, config = existsSync(USUAL_CONFIG) ? USUAL_CONFIG : undefined } = options
  const folder = state ?? (config === undefined ? null : await stateIn(config))
  if (folder === null) {
    throw new UsageError(
      config === undefined
        ? `--state is missing: give the state folder, or the configuration by -c; there is no ${USUAL_CONFIG}`
        : `${config}: no state folder; add "state:"`,
    )
  }
  try {
    await nodeFileSystem.list(folder)
  } catch (error) {
    throw fileError('read', folder, error)
  }
  return folder
}
