/**
 * Readings: what came back from the targets, an item of work each, as JSON lines in one file (`machines.jsonl`). A
 * reading says which target, how it was reached, under what ceiling, what machine it was, what was expected and what
 * came of it. Pages and trials are made from readings alone.
 */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { FormatError } from '@oddflow/core'
import { z } from 'zod'
import { inFile } from '../errors.js'
import { writeFileWhole } from '../output/write-file.js'
import { isComplete } from './reach/run-program.js'
import { checked, expectedShape, failureShape, machineShape, outcomeShape, workShape } from './runner-line.js'
import { SHORT_NAME } from './short-name.js'
import { workItemKey } from './work.js'

const readingShape = z.strictObject({
  format: z.literal(1),
  target: z.string().regex(SHORT_NAME),
  /** `carried`: the bundle and its results went by hand. */
  reach: z.enum(['local', 'ssh', 'emulated', 'carried']),
  memoryCeilingBytes: z.number().int().min(1).nullable(),
  bundleSha256: z.string().regex(/^[0-9a-f]{64}$/),
  machine: machineShape,
  loadAverage: z.number().min(0).nullable(),
  /** Of the process that did the item, with whatever else it did. */
  peakMemoryBytes: z.number().int().min(0).nullable(),
  work: workShape,
  expected: expectedShape,
  outcome: z.union([outcomeShape, failureShape]),
})

export type Reading = z.infer<typeof readingShape>

const MAXIMUM_FILE_BYTES = 100_000_000

/** Whether model and scores are those of the machine that made the bundle; null for an item that failed. */
export function isEqualReading({ expected, outcome }: Reading): boolean | null {
  if ('failure' in outcome) return null
  return outcome.modelSha256 === expected.modelSha256 && outcome.scoresSha256 === expected.scoresSha256
}

/** Whether its times may stand beside those of other machines: not under an emulator, not under a ceiling. */
export function isTimed({ reach, machine, memoryCeilingBytes, outcome }: Reading): boolean {
  return reach !== 'emulated' && !machine.emulated && memoryCeilingBytes === null && !('failure' in outcome)
}

export function readingKey({ target, work }: Reading): string {
  return `${target} ${workItemKey(work)}`
}

/** Readings of a file; none when there is no file. Throws an error that begins with the path and names the line. */
export function readReadings(path: string): Reading[] {
  if (!existsSync(path)) return []
  return inFile(path, () => {
    const { size } = statSync(path)
    if (size > MAXIMUM_FILE_BYTES)
      throw new FormatError('readings', `${size} bytes; at most ${MAXIMUM_FILE_BYTES}`)
    const lines = readFileSync(path, 'utf8').split('\n')
    if (lines.pop() !== '') throw new FormatError('readings', 'the last line has no end')
    return lines.map((line, i) => {
      try {
        const reading = checked(readingShape, line, 'reading')
        if (!isComplete(reading)) throw new FormatError('reading', 'outcome: is not what such work gives')
        return reading
      } catch (error) {
        if (error instanceof FormatError) throw new FormatError('readings', `line ${i + 1}: ${error.message}`)
        throw error
      }
    })
  })
}

/** The readings with newer ones in the place of older ones of the same target and item; in the order of their keys. */
export function mergeReadings(known: readonly Reading[], newer: readonly Reading[]): Reading[] {
  const byKey = new Map([...known, ...newer].map((reading) => [readingKey(reading), reading]))
  return [...byKey.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, reading]) => reading)
}

export function writeReadings(path: string, readings: readonly Reading[]): void {
  writeFileWhole(path, readings.map((reading) => `${JSON.stringify(reading)}\n`).join(''))
}
