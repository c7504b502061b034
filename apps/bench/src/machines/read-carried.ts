/** What the program of a bundle printed on a machine where somebody ran it by hand: a file of its lines. */
import { readFileSync, statSync } from 'node:fs'
import { FormatError } from '@oddflow/core'
import { inFile } from '../errors.js'
import { isComplete } from './reach/run-program.js'
import type { Reading } from './reading.js'
import { decodeRunnerLine, type RunnerLine } from './runner-line.js'
import { workItemKey } from './work.js'

const MAXIMUM_BYTES = 100_000_000

/** Throws an error that begins with the path and names the line; a file without its end is not whole. */
export function readCarried(path: string): Reading[] {
  return inFile(path, () => {
    const { size } = statSync(path)
    if (size > MAXIMUM_BYTES) throw new FormatError('result', `${size} bytes; at most ${MAXIMUM_BYTES}`)
    const texts = readFileSync(path, 'utf8').split('\n')
    if (texts[texts.length - 1] === '') texts.pop()
    const lines = texts.map((text, i) => {
      try {
        return decodeRunnerLine(text.replace(/\r$/, ''))
      } catch (error) {
        if (error instanceof FormatError) throw new FormatError('result', `line ${i + 1}: ${error.message}`)
        throw error
      }
    })
    return readingsOf(lines)
  })
}

function readingsOf(lines: readonly RunnerLine[]): Reading[] {
  const [first, ...rest] = lines
  const last = rest.pop()
  if (first?.kind !== 'machine') throw new FormatError('result', 'expected a machine in the first line')
  if (last?.kind !== 'end' || last.items !== rest.length) {
    throw new FormatError('result', 'the run did not come to its end: run it again')
  }
  const seen = new Set<string>()
  return rest.map((line): Reading => {
    if (line.kind !== 'item') throw new FormatError('result', `expected an item, found ${line.kind}`)
    const key = workItemKey(line.work)
    if (seen.has(key)) throw new FormatError('result', `item ${line.index}: ${key} stands there twice`)
    seen.add(key)
    if (!isComplete(line)) throw new FormatError('result', `item ${line.index}: is not what such work gives`)
    return {
      format: 1,
      target: first.name,
      reach: 'carried',
      memoryCeilingBytes: null,
      bundleSha256: first.bundleSha256,
      machine: first.machine,
      loadAverage: first.loadAverage,
      peakMemoryBytes: last.peakMemoryBytes,
      work: line.work,
      expected: line.expected,
      outcome: line.outcome,
    }
  })
}
