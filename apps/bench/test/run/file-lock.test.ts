import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { openTrials, readTrials, realTarget } from '../../src/run/trials-file.js'
import { sampleTrial } from '../support/sample-trial.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-bench-lock-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('the lock of a file', () => {
  it('lies beside what a symbolic link names, also where that is not there yet', () => {
    const place = join(folder, 'there')
    mkdirSync(place)
    symlinkSync('there', join(folder, 'by-folder'))
    symlinkSync(join('by-folder', 'trials.jsonl'), join(folder, 'by-file'))
    for (const path of ['there/trials.jsonl', 'by-folder/trials.jsonl', 'by-file']) {
      expect(realTarget(join(folder, path))).toBe(join(place, 'trials.jsonl'))
    }
    const file = openTrials(join(folder, 'by-file'))
    expect(readdirSync(place).sort()).toEqual(['trials.jsonl', 'trials.jsonl.lock'])
    file.append(sampleTrial())
    file.close()
    expect(readdirSync(place)).toEqual(['trials.jsonl'])
    expect(readTrials(join(folder, 'by-file')).length).toBe(1)
  })

  it('refuses links that go round, and a lock that is a folder, in words', () => {
    symlinkSync('round-b', join(folder, 'round-a'))
    symlinkSync('round-a', join(folder, 'round-b'))
    expect(() => openTrials(join(folder, 'round-a'))).toThrow(
      /round-a: cannot write it: symbolic links form a loop/,
    )
    const path = join(folder, 'locked.jsonl')
    mkdirSync(`${path}.lock`)
    expect(() => openTrials(path)).toThrow(
      `${path}: its lock ${path}.lock is not a file of oddflow-bench; remove it`,
    )
  })

  it('says of what cannot be written that it cannot be written', () => {
    mkdirSync(join(folder, 'folder.jsonl'))
    expect(() => openTrials(join(folder, 'folder.jsonl'))).toThrow(/folder\.jsonl: cannot write it: is a dir/)
    // a file system that takes no folder of anybody
    expect(() => openTrials('/proc/nothing/trials.jsonl')).toThrow(
      /\/proc\/nothing: cannot write it: (?!.*trials)/,
    )
  })
})
