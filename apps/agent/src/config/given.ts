/**
 * Given: what a run was told, on the command line and in a configuration file, and how it is complained of.
 *
 * What is given on the command line counts, then the file, then the default. Paths in the file are relative to the
 * folder that it lies in. A complaint about the file has line and column, one about a flag its name.
 */
import { dirname, isAbsolute, join } from 'node:path'
import { ArgumentError } from '@oddflow/core'
import { parseBytes, UsageError } from '@oddflow/program'
import type { ModelsPer } from '../training/model-owner.js'
import type { ReadConfig } from './read-config.js'
import type { Config } from './schema.js'

/** Options of `run` as commander gives them. */
export interface RunOptions {
  readonly config?: string
  readonly read?: string
  readonly interface?: string
  readonly filter?: string
  readonly dropDuplicates?: boolean
  readonly model?: string
  readonly models?: ModelsPer
  readonly eve?: string
  readonly fold: boolean
  readonly once?: boolean
  readonly state?: string
  readonly listen?: string
  readonly memoryLimit?: string
  readonly allowRoot?: boolean
}

export type Path = readonly (string | number)[]

export interface Given {
  readonly options: RunOptions
  /** Empty where there is no file. */
  readonly config: Config
  /** A path of the file, from the folder where the agent was started. */
  inFolder<T extends string | undefined>(path: T): T
  /** Runs a check; its complaint (an ArgumentError or a UsageError) is given the place of `path` in the file. */
  located<T>(path: Path, work: () => T): T
  /** Throws the complaint, with the place of `path` in the file. */
  refuse(path: Path, message: string): never
  /** A number of bytes such as 64M in the file. */
  bytes(path: Path, value: string | number | undefined, otherwise: number): number
}

/** @param file - null where there is none. */
export function createGiven(options: RunOptions, file: ReadConfig | null): Given {
  const name = options.config ?? ''
  const located = <T>(path: Path, work: () => T): T => {
    try {
      return work()
    } catch (error) {
      if (!(error instanceof ArgumentError || error instanceof UsageError)) throw error
      if (file === null) throw new UsageError(error.message)
      const exact = [...path, ...fieldPath(error instanceof ArgumentError ? error.field : undefined)]
      const { line, column } = file.placeOf(exact)
      throw new UsageError(`${name}:${line}:${column}: ${error.message}`)
    }
  }
  return {
    options,
    config: file?.config ?? {},
    inFolder: <T extends string | undefined>(path: T): T =>
      path === undefined || path === '-' || isAbsolute(path)
        ? path
        : (join(dirname(options.config ?? '.'), path) as T),
    located,
    refuse: (path, message) =>
      located(path, () => {
        throw new ArgumentError(message)
      }),
    bytes: (path, value, otherwise) =>
      value === undefined ? otherwise : located(path, () => parseBytes(String(value), path.join('.'))),
  }
}

/** Throws UsageError where there is none. */
export function required(value: string | undefined, name: string, what: string): string {
  if (value === undefined || value === '') throw new UsageError(`--${name} is missing: give ${what}`)
  return value
}

/** "[0].device" → [0, 'device'] */
function fieldPath(field: string | undefined): Path {
  if (field?.startsWith('[') !== true) return []
  return Array.from(field.matchAll(/\[(\d+)\]|\.?(\w+)/g), ([, index, key]) =>
    index === undefined ? key : Number(index),
  )
}
