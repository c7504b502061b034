import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { OddFlowError } from '@oddflow/core'
import { afterAll, describe, expect, it } from 'vitest'
import { encodeTrial } from '../../src/run/trial.js'
import { openTrials, readTrials } from '../../src/run/trials-file.js'
import { sampleTrial } from '../support/sample-trial.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-bench-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const a = sampleTrial({ repeat: 0 })
const b = sampleTrial({ repeat: 1 })
const c = sampleTrial({ repeat: 2 })
let files = 0
const newPath = (): string => join(folder, `${files++}.jsonl`)

describe('the trials file', () => {
  it('gives back what was appended, in order', () => {
    const path = newPath()
    const file = openTrials(path)
    expect(file.trials).toEqual([])
    for (const trial of [b, a]) file.append(trial)
    file.close()
    expect(readTrials(path)).toEqual([b, a])
    const again = openTrials(path)
    expect(again.trials).toEqual([b, a])
    again.append(c)
    again.close()
    expect(readTrials(path)).toEqual([b, a, c])
    expect(existsSync(`${path}.lock`)).toBe(false)
  })

  it('cuts off a last line that was torn at any byte, and nothing else', () => {
    const line = `${encodeTrial(b)}\n`
    for (const kept of sampleOf(Array(line.length).keys())) {
      const path = newPath()
      writeFileSync(path, `${encodeTrial(a)}\n${line.slice(0, kept)}`)
      const file = openTrials(path)
      expect(file.trials).toEqual([a])
      expect(file.tornBytes).toBe(kept)
      file.append(c)
      file.close()
      expect(readFileSync(path, 'utf8')).toBe(`${encodeTrial(a)}\n${encodeTrial(c)}\n`)
      rmSync(path)
    }
  })

  it('refuses a line within it that is no trial, by number, and a trial twice', () => {
    const path = newPath()
    writeFileSync(path, `${encodeTrial(a)}\n{"formatVersion":1}\n${encodeTrial(b)}\n`)
    expect(() => openTrials(path)).toThrow(`${path}: trials: line 2: trial: dataset`)
    expect(existsSync(`${path}.lock`)).toBe(false)
    writeFileSync(path, `${encodeTrial(a)}\n${encodeTrial({ ...a, trainMillis: 1 })}\n`)
    expect(() => readTrials(path)).toThrow(/line 2: .*two trials of ctu-rows.*or line 1/)
    writeFileSync(path, Buffer.from([0xff, 0xfe, 0x0a]))
    expect(() => readTrials(path)).toThrow(OddFlowError)
  })

  it('takes no trial that is there already, and stays as it was', () => {
    const path = newPath()
    writeFileSync(path, `${encodeTrial(a)}\n`)
    const file = openTrials(path)
    file.append(b)
    for (const again of [a, { ...b, trainMillis: 1 }]) {
      expect(() => file.append(again)).toThrow(`${path}: trials: there is a trial of ctu-rows`)
    }
    file.append(c)
    file.close()
    expect(readTrials(path)).toEqual([a, b, c])
  })

  it('keeps a second run out while the first lives, and takes over from one that is gone', () => {
    const path = newPath()
    writeFileSync(`${path}.lock`, `${process.ppid}\n`)
    expect(() => openTrials(path)).toThrow(/another run \(process \d+\) has it open/)
    // a process number that no system gives
    writeFileSync(`${path}.lock`, `${2 ** 31 - 1}\n`)
    const file = openTrials(path)
    file.append(a)
    file.close()
    expect(readTrials(path)).toEqual([a])
  })

  it('is not read for tables while its last line is torn', () => {
    const path = newPath()
    writeFileSync(path, `${encodeTrial(a)}\n`)
    appendFileSync(path, encodeTrial(b).slice(0, 40))
    expect(() => readTrials(path)).toThrow(/resume the run/)
  })
})
