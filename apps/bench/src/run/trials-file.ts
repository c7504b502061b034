/**
 * The trials file: JSON lines, appended to by runs, each line written in one piece and flushed; it is written anew only
 * when what another machine measured takes the place of what it measured before.
 *
 * A run that is killed may leave a line without its end. Such a line was never a trial: it is cut off before the
 * next is written, and its work is done again. Anything else that is not a trial is an error with its line number,
 * because it would mean that the file is not what it was. A lock keeps a second run out (file-lock.ts).
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  statSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { FormatError } from '@oddflow/core'
import { decodeTrial, encodeTrial, type Trial, trialKey } from '@oddflow/evaluation'
import { inFile } from '../errors.js'
import { makeFolder } from '../output/make-folder.js'
import { writeFileWhole } from '../output/write-file.js'
import { realTarget, takeLock } from './file-lock.js'

/** A quarter of a million trials. */
const MAXIMUM_FILE_BYTES = 500_000_000

/** What a trial is of: no file has two trials of one key. */
export type KeyOf = (trial: Trial) => string

export interface TrialsFile {
  /** What was there when it was opened. */
  readonly trials: readonly Trial[]
  /** Bytes of a last line without its end that were cut off. */
  readonly tornBytes: number
  append(trial: Trial): void
  /** All of the file anew, whole or not at all: for trials that newer ones take the place of. */
  rewrite(trials: readonly Trial[]): void
  close(): void
}

/** The trials of a file that nobody writes to. Throws an error that begins with the path and names the line. */
export function readTrials(path: string, keyOf: KeyOf = trialKey): Trial[] {
  return inFile(path, () => {
    checkSize(path)
    const bytes = readFileSync(path)
    if (wholeLines(bytes) !== bytes.length) {
      throw new FormatError('trials', 'the last line has no end; resume the run that wrote it')
    }
    return parse(bytes, keyOf)
  })
}

/**
 * Opens, or makes, a file to append to. Throws FileError when another run has it open. A trial whose key is there is
 * refused by `append`, and the file stays as it was.
 */
export function openTrials(path: string, keyOf: KeyOf = trialKey): TrialsFile {
  return inFile(path, () => openLocked(path, keyOf), 'write')
}

function openLocked(path: string, keyOf: KeyOf): TrialsFile {
  makeFolder(dirname(path))
  const target = realTarget(path)
  const release = takeLock(target)
  try {
    if (existsSync(target)) checkSize(target)
    let file = openSync(target, 'a+')
    const bytes = readFileSync(file)
    const whole = wholeLines(bytes)
    const trials = parse(bytes.subarray(0, whole), keyOf)
    const keys = new Set(trials.map(keyOf))
    if (whole < bytes.length) ftruncateSync(file, whole)
    return {
      trials,
      tornBytes: bytes.length - whole,
      append(trial) {
        const write = (): void => {
          const key = keyOf(trial)
          if (keys.has(key)) throw new FormatError('trials', `there is a trial of ${key} already`)
          writeWhole(file, Buffer.from(`${encodeTrial(trial)}\n`))
          fsyncSync(file)
          keys.add(key)
        }
        inFile(path, write, 'write')
      },
      rewrite(all) {
        writeFileWhole(target, all.map((trial) => `${encodeTrial(trial)}\n`).join(''))
        closeSync(file)
        file = openSync(target, 'a+')
        keys.clear()
        for (const trial of all) keys.add(keyOf(trial))
      },
      close() {
        closeSync(file)
        release()
      },
    }
  } catch (error) {
    release()
    throw error
  }
}

function writeWhole(file: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at)
}

function checkSize(path: string): void {
  const { size } = statSync(path)
  if (size > MAXIMUM_FILE_BYTES)
    throw new FormatError('trials', `${size} bytes; at most ${MAXIMUM_FILE_BYTES}`)
}

/** Bytes up to the last line that has its end. */
function wholeLines(bytes: Uint8Array): number {
  return bytes.lastIndexOf(0x0a) + 1
}

function parse(bytes: Uint8Array, keyOf: KeyOf): Trial[] {
  const lineOf = new Map<string, number>()
  const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  return text
    .split('\n')
    .slice(0, -1)
    .map((line, i) => {
      try {
        const trial = decodeTrial(line)
        const key = keyOf(trial)
        const before = lineOf.get(key)
        if (before !== undefined) {
          throw new FormatError(
            'trials',
            `there are two trials of ${key}: remove this line or line ${before}`,
          )
        }
        lineOf.set(key, i + 1)
        return trial
      } catch (error) {
        if (error instanceof FormatError) throw new FormatError('trials', `line ${i + 1}: ${error.message}`)
        throw error
      }
    })
}
