/** Lines of an EVE file are whole, whatever fails and whenever it is killed; and log rotation is followed. */
import { execFileSync } from 'node:child_process'
import {
  constants,
  existsSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type FileSystem, nodeFileSystem } from '../../src/files/file-system.js'
import { startDelivery } from '../../src/outputs/delivery.js'
import { type EveFile, openEveFile } from '../../src/outputs/eve-file.js'
import { createMemoryLog } from '../../src/spool/alert-log.js'
import { type Faults, faultyFiles, noFaults } from '../support/faulty-files.js'
import { temporaryFolder } from '../support/folder.js'
import { hastyClock } from '../support/hasty-clock.js'

const folder = temporaryFolder()
let files = 0
const newPath = (): string => join(folder, `${files++}.json`)
const never = new AbortController().signal
const batch = (...texts: string[]) => ({
  first: 0,
  lines: texts.map((text) => new TextEncoder().encode(text)),
})

describe('an EVE file', () => {
  it('is there from the start, and is only added to', async () => {
    const path = newPath()
    const first = await openEveFile(nodeFileSystem, path)
    expect(readFileSync(path, 'utf8')).toBe('')
    await first.deliver(batch('a', 'b'), never)
    await first.close()
    const second = await openEveFile(nodeFileSystem, path)
    await second.deliver(batch('c'), never)
    expect(readFileSync(path, 'utf8')).toBe('a\nb\nc\n')
    await second.close()
  })

  it('loses the line that a kill cut off, and nothing else', async () => {
    const path = newPath()
    writeFileSync(path, '{"a":1}\n{"b":')
    const file = await openEveFile(nodeFileSystem, path)
    await file.deliver(batch('{"b":2}'), never)
    expect(readFileSync(path, 'utf8')).toBe('{"a":1}\n{"b":2}\n')
    await file.close()
  })

  it('that is removed, renamed or replaced without a word is made again, and the next alert is in it', async () => {
    const ways: Record<string, (path: string) => void> = {
      removed: (path) => rmSync(path),
      renamed: (path) => renameSync(path, `${path}.1`),
      replaced: (path) => {
        writeFileSync(`${path}.new`, '')
        renameSync(`${path}.new`, path)
      },
      'a link to another file': (path) => {
        rmSync(path)
        symlinkSync(`${path}.target`, path)
      },
    }
    for (const [way, change] of Object.entries(ways)) {
      const path = newPath()
      const file = await openEveFile(nodeFileSystem, path)
      await file.deliver(batch('a'), never)
      change(path)
      await file.deliver(batch('b'), never)
      await file.deliver(batch('c'), never)
      expect(readFileSync(path, 'utf8'), way).toBe('b\nc\n')
      await file.close()
    }
  })

  it('that another program writes to as well is reported once, and no rotation is taken for that', async () => {
    const path = newPath()
    let reports = 0
    const count = (): void => void reports++
    const files = await Promise.all(
      [0, 1].map(() => openEveFile(nodeFileSystem, path, () => undefined, count)),
    )
    const [one, other] = files as [EveFile, EveFile]
    for (const text of ['a', 'b']) await one.deliver(batch(text), never)
    // rotated by copying and cutting
    truncateSync(path)
    await one.deliver(batch('c'), never)
    renameSync(path, `${path}.1`)
    await one.deliver(batch('d'), never)
    expect(reports).toBe(0)
    for (const text of ['e', 'f', 'g']) {
      await other.deliver(batch(text), never)
      await one.deliver(batch(text), never)
    }
    expect(reports).toBe(2)
    expect(readFileSync(path, 'utf8')).toBe('d\ne\ne\nf\nf\ng\ng\n')
    for (const each of files) await each.close()
  })

  it('that is removed while it is written to has not got the alert, and gets it in a new one', async () => {
    const path = newPath()
    let isRemoved = false
    const files: FileSystem = {
      ...nodeFileSystem,
      async open(name, mode) {
        const opened = await nodeFileSystem.open(name, mode)
        return {
          ...opened,
          async sync() {
            await opened.sync()
            if (!isRemoved) rmSync(path)
            isRemoved = true
          },
        }
      },
    }
    const file = await openEveFile(files, path)
    await expect(file.deliver(batch('a'), never)).rejects.toThrow(/was removed or renamed while/)
    await file.deliver(batch('a'), never)
    expect(readFileSync(path, 'utf8')).toBe('a\n')
    await file.close()
  })

  it('keeps lines of other programs', async () => {
    const path = newPath()
    const foreign = 'x'.repeat(200_000)
    writeFileSync(path, foreign)
    const file = await openEveFile(nodeFileSystem, path)
    await file.deliver(batch('a'), never)
    expect(readFileSync(path, 'utf8')).toBe(`${foreign}\na\n`)
    await file.close()
  })

  it('has whole lines when a write takes half of them', async () => {
    const path = newPath()
    const faults = noFaults()
    const file = await openEveFile(faultyFiles(faults), path)
    await file.deliver(batch('first'), never)
    faults.fails = (_, kind) => kind === 'write'
    await expect(file.deliver(batch('second', 'third'), never)).rejects.toMatchObject({ code: 'ENOSPC' })
    // at once: a reader of the file need not wait for the next alert
    expect(readFileSync(path, 'utf8')).toBe('first\n')
    faults.fails = () => false
    await file.deliver(batch('second', 'third'), never)
    expect(readFileSync(path, 'utf8')).toBe('first\nsecond\nthird\n')
    await file.close()
  })

  it('has whole lines and all that was delivered, whichever step fails', async () => {
    /** Three batches onto a torn line, each tried again until it is taken; then rotated, and two more. */
    const scenario = async (path: string, faults: Faults): Promise<string[]> => {
      writeFileSync(path, '{"a":1}\n{"b":')
      const file = await openEveFile(faultyFiles(faults), path)
      const taken: string[] = []
      for (const name of ['one', 'two', 'three', 'four', 'five']) {
        if (name === 'four') {
          renameSync(path, `${path}.1`)
          file.reopen()
        }
        for (let attempt = 0; attempt < 4; attempt++) {
          const isTaken = await file.deliver(batch(`${name} a`, `${name} b`), never).then(
            () => true,
            () => false,
          )
          if (isTaken) taken.push(name)
          if (isTaken) break
        }
      }
      await file.close()
      return taken
    }
    const counting = noFaults()
    await scenario(newPath(), counting)
    expect(new Set(counting.seen)).toEqual(new Set(['truncate', 'write', 'sync']))
    for (let step = 0; step < counting.steps; step++) {
      for (const isForGood of [false, true]) {
        const where = `step ${step}, ${counting.seen[step]}, ${isForGood ? 'for good' : 'once'}`
        const path = newPath()
        const faults = noFaults()
        faults.fails = (at) => (isForGood ? at >= step : at === step)
        const taken = await scenario(path, faults)
        if (!isForGood) expect(taken, where).toHaveLength(5)
        // what a disk that fails for good has cut off is taken away by the next start
        for (const each of [`${path}.1`, path]) {
          const next = await openEveFile(nodeFileSystem, each)
          await next.deliver(batch('end'), never)
          await next.close()
        }
        const text = readFileSync(`${path}.1`, 'utf8') + readFileSync(path, 'utf8')
        const lines = text.trimEnd().split('\n')
        for (const line of lines)
          expect(line, where).toMatch(/^(\{"a":1\}|(one|two|three|four|five) [ab]|end)$/)
        for (const name of taken)
          for (const part of ['a', 'b']) expect(lines, where).toContain(`${name} ${part}`)
      }
    }
  })

  it('is reopened after log rotation', async () => {
    const path = newPath()
    const file = await openEveFile(nodeFileSystem, path)
    await file.deliver(batch('old'), never)
    renameSync(path, `${path}.1`)
    file.reopen()
    await file.deliver(batch('new'), never)
    expect(readFileSync(`${path}.1`, 'utf8')).toBe('old\n')
    expect(readFileSync(path, 'utf8')).toBe('new\n')
    await file.close()
  })

  it('cannot be where there is no folder', async () => {
    await expect(openEveFile(nodeFileSystem, join(folder, 'none', 'eve.json'))).rejects.toMatchObject({
      code: 'ENOENT',
    })
    expect(existsSync(join(folder, 'none'))).toBe(false)
  })
})

describe('a pipe', () => {
  it('gets whole lines whatever its reader does: late, slow, gone and another', async () => {
    const path = newPath()
    execFileSync('mkfifo', [path])
    const said: string[] = []
    const file = await openEveFile(nodeFileSystem, path, ({ message }) => said.push(message))
    expect(said).toEqual([`${path}: is a pipe without a reader; start its reader`])
    await expect(file.deliver(batch('early'), never)).rejects.toThrow(/without a reader/)
    const read = async (work: (reader: FileHandle) => Promise<void>): Promise<void> => {
      const reader = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
      await work(reader).finally(() => reader.close())
    }
    /** All that is there until lines of the batch have come. */
    const linesUntil = async (reader: FileHandle, last: string): Promise<string[]> => {
      let text = ''
      while (!text.endsWith(`${last}\n`)) {
        const { bytesRead, buffer } = await reader
          .read(Buffer.alloc(65_536), 0, 65_536)
          .catch(() => ({ bytesRead: 0, buffer: Buffer.alloc(0) }))
        text += buffer.toString('utf8', 0, bytesRead)
        if (bytesRead === 0) await hastyClock.sleep(1)
      }
      return text.trimEnd().split('\n')
    }
    // more than a pipe holds
    const long = Array.from({ length: 40 }, (_, i) => `${i} ${'x'.repeat(10_000)}`)
    await read(async (reader) => {
      await file.deliver(batch('early'), never)
      const writing = file.deliver(batch(...long, 'end'), never)
      expect(await linesUntil(reader, 'end')).toEqual(['early', ...long, 'end'])
      await writing
    })
    await expect(file.deliver(batch('nobody'), never)).rejects.toMatchObject({ code: 'EPIPE' })
    await expect(file.deliver(batch('nobody'), never)).rejects.toThrow(/without a reader/)
    await read(async (reader) => {
      await file.deliver(batch('another'), never)
      expect(await linesUntil(reader, 'another')).toEqual(['another'])
    })
    await file.close()
  })
})

describe('a delivery', () => {
  it('tries again until the output works, says when it begins to fail and when it works, and keeps the order', async () => {
    const path = newPath()
    const faults = noFaults()
    const log = createMemoryLog({ maximumBytes: 1 << 20 })
    const said: (string | null)[] = []
    const delivery = await startDelivery({
      log,
      output: await openEveFile(faultyFiles(faults), path),
      clock: hastyClock,
      onError: (trouble) =>
        said.push(trouble === null ? null : ((trouble as NodeJS.ErrnoException).code ?? '')),
    })
    let failures = 0
    faults.fails = (_, kind) => kind === 'sync' && failures++ < 5
    const expected = Array.from({ length: 1000 }, (_, i) => `alert ${i}`)
    for (const line of expected) log.append(new TextEncoder().encode(line))
    await delivery.drained(never)
    await delivery.stop()
    expect(said).toEqual(['ENOSPC', null])
    const lines = readFileSync(path, 'utf8').trimEnd().split('\n')
    // a batch that was written and not flushed comes again; the first of each are in order
    expect([...new Set(lines)]).toEqual(expected)
    expect([delivery.delivered, delivery.dropped, delivery.backlog]).toEqual([1000, 0, 0])
  })

  it('counts exactly what a log in memory had no room for', async () => {
    const path = newPath()
    const faults = noFaults()
    const log = createMemoryLog({ maximumBytes: 10_000 })
    faults.fails = (_, kind) => kind === 'write'
    const delivery = await startDelivery({
      log,
      output: await openEveFile(faultyFiles(faults), path),
      clock: hastyClock,
    })
    for (let i = 0; i < 500; i++) {
      log.append(new TextEncoder().encode(String(i).padStart(100, '0')))
      if (i % 50 === 0) await hastyClock.sleep(1)
    }
    faults.fails = () => false
    await delivery.drained(never)
    await delivery.stop()
    const got = readFileSync(path, 'utf8').trimEnd().split('\n').map(Number)
    expect(got).toHaveLength(delivery.delivered)
    expect(delivery.delivered + delivery.dropped).toBe(500)
    expect(delivery.dropped).toBeGreaterThan(300)
    expect(got).toEqual([...got].sort((a, b) => a - b))
    expect(got.at(-1)).toBe(499)
  })
})
