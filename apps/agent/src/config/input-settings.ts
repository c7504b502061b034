/** What is watched: a recording or an interface, and of it what a filter lets through. */
import { compileFilter, type PacketFilter } from '@oddflow/capture'
import { ArgumentError } from '@oddflow/core'
import { UsageError } from '@oddflow/program'
import type { InputSettings } from '../settings.js'
import { type Given, required } from './given.js'

/** Throws UsageError. */
export function inputFrom({ options, config, inFolder, located, refuse }: Given): InputSettings {
  const onLine = options.read !== undefined || options.interface !== undefined
  const read = onLine ? options.read : inFolder(config.read)
  const name = onLine ? options.interface : config.interface
  if (read !== undefined && name !== undefined) {
    if (onLine)
      throw new UsageError('--read and --interface: a recording or an interface, not both; leave one out')
    refuse(['interface'], 'read and interface: a recording or an interface, not both; leave one out')
  }
  const filter = options.filter ?? config.filter
  if (name !== undefined) return { kind: 'live', interface: name, filter: filter ?? null }
  const path = required(read, 'read', 'a capture file, or - for standard input; or --interface an interface')
  const compiled = (): PacketFilter | null => (filter === undefined ? null : compileFilter(filter))
  if (options.filter === undefined) {
    return { kind: 'recorded', path, filter: located(['filter'], compiled) }
  }
  try {
    return { kind: 'recorded', path, filter: compiled() }
  } catch (error) {
    throw error instanceof ArgumentError ? new UsageError(`--filter: ${error.message}`) : error
  }
}
