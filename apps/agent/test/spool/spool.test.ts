/**
 * What the spool acknowledges is delivered, whatever fails: each step of the file system in turn, for once and
 * for good, followed by a restart on a sound disk.
 */
import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { createRng } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { FileSystem } from '../../src/files/file-system.js'
import { nodeFileSystem } from '../../src/files/file-system.js'
import { type AlertLog, type AlertReader, acknowledgedAll } from '../../src/spool/alert-log.js'
import { openSpool } from '../../src/spool/spool.js'
import { faultyFiles, noFaults } from '../support/faulty-files.js'
import { temporaryFolders } from '../support/folder.js'
import { hastyClock } from '../support/hasty-clock.js'
import { keepingLog } from '../support/keeping-log.js'

const newFolder = temporaryFolders()

const never = new AbortController().signal
const text = (line: Uint8Array): string => JSON.parse(new TextDecoder().decode(line)).oddflow.id
const line = (name: string, sizeBytes = 0): Uint8Array =>
  new TextEncoder().encode(JSON.stringify({ timestamp: '', oddflow: { id: name } }).padEnd(sizeBytes))

interface Opened {
  log: AlertLog
  /** Lines acknowledged, in order. */
  acknowledged: string[]
  /** What was told of damage. */
  told: string[]
  append(name: string, sizeBytes?: number): boolean
}

async function open(
  folder: string,
  files: FileSystem = nodeFileSystem,
  maximumBytes = 1 << 20,
  maximumPendingBytes = 1 << 20,
): Promise<Opened> {
  const appended: string[] = []
  const acknowledged: string[] = []
  const { lines: told, ...keeping } = keepingLog()
  const log = await openSpool({
    files,
    log: keeping,
    clock: hastyClock,
    folder,
    maximumBytes,
    maximumPendingBytes,
    onAcknowledged: (first, end) => acknowledged.push(...appended.splice(0, end - first)),
  })
  return {
    log,
    acknowledged,
    told,
    append(name, sizeBytes) {
      const taken = log.append(line(name, sizeBytes))
      if (taken) appended.push(name)
      return taken
    },
  }
}

/** Adds what it reads to `all`, also what it cannot commit. */
async function readAll(reader: AlertReader, limit = 1000, all: string[] = []): Promise<string[]> {
  for (;;) {
    const { first, lines } = await reader.read(limit)
    if (lines.length === 0) return all
    all.push(...lines.map(text))
    await reader.commit(first + lines.length)
  }
}

describe('a sound disk', () => {
  it('gives back what was appended, in order, to each output for itself, and to none twice', async () => {
    const folder = newFolder()
    const { log, append } = await open(folder)
    const [fast, slow] = [await log.reader('fast'), await log.reader('slow')]
    const names = Array.from({ length: 300 }, (_, i) => `alert ${i}`)
    for (const name of names) append(name, 100)
    await acknowledgedAll(log, never)
    expect(await readAll(fast, 7)).toEqual(names)
    expect(await readAll(fast)).toEqual([])
    expect(slow.backlog).toBe(300)
    await log.close()

    const again = await open(folder)
    const [fastAgain, slowAgain] = [await again.log.reader('fast'), await again.log.reader('slow')]
    again.append('after')
    await acknowledgedAll(again.log, never)
    expect(await readAll(fastAgain)).toEqual(['after'])
    expect(await readAll(slowAgain)).toEqual([...names, 'after'])
    await again.log.close()
  })

  it('reads again what was not committed', async () => {
    const { log, append } = await open(newFolder())
    const reader = await log.reader('eve')
    for (const name of ['a', 'b', 'c']) append(name)
    await acknowledgedAll(log, never)
    expect((await reader.read(2)).lines.map(text)).toEqual(['a', 'b'])
    await reader.commit(1)
    expect((await reader.read(9)).lines.map(text)).toEqual(['b'])
    await reader.commit(2)
    expect((await reader.read(9)).lines.map(text)).toEqual(['c'])
    await log.close()
  })

  it('gives a new output what is new, and one that it knows everything since it stopped', async () => {
    const folder = newFolder()
    const faults = noFaults()
    const first = await open(folder, faultyFiles(faults))
    await first.log.reader('eve')
    // the cursor of the second cannot be written at once
    const failing = faults.steps + 1
    faults.fails = (step) => step === failing
    await first.log.reader('mqtt')
    expect(readdirSync(join(folder, 'spool'))).toEqual(['eve.place'])
    first.append('old')
    await acknowledgedAll(first.log, never)
    await first.log.close()
    writeFileSync(join(folder, 'spool', 'eve.place'), 'damaged')
    for (const restart of [1, 2]) {
      const { log, append } = await open(folder)
      const readers: AlertReader[] = []
      for (const name of ['eve', 'mqtt', 'mail']) readers.push(await log.reader(name))
      append(`new ${restart}`)
      await acknowledgedAll(log, never)
      if (restart === 2) {
        const got = await Promise.all(readers.map((each) => readAll(each)))
        const all = ['old', 'new 1', 'new 2']
        // who has had 'old' is not known any more
        expect(got).toEqual([all, all, all])
        expect(readers.map(({ dropped }) => dropped)).toEqual([0, 0, 0])
      }
      await log.close()
    }
  })

  it('gives a new output, or one that is renamed, what another has not had, and says what it leaves out', async () => {
    const folder = newFolder()
    const { log, append } = await open(folder)
    const [fast, stuck] = [await log.reader('fast'), await log.reader('stuck')]
    for (const name of ['a', 'b', 'c', 'd']) append(name)
    await acknowledgedAll(log, never)
    await readAll(fast)
    await stuck.read(2)
    await stuck.commit(2)
    await log.close()
    const again = await open(folder)
    const readers = [await again.log.reader('fast'), await again.log.reader('renamed')]
    again.append('e')
    await acknowledgedAll(again.log, never)
    expect(await Promise.all(readers.map((each) => readAll(each)))).toEqual([['e'], ['c', 'd', 'e']])
    await again.log.close()
    expect(again.told).toEqual([
      expect.stringMatching(
        /^renamed: a new output of .*; it does not get earlier alerts that all others have had \(2\)$/,
      ),
    ])
  })

  it('removes what every output has, and keeps within its bytes with an exact count of what was lost', async () => {
    const folder = newFolder()
    const maximumBytes = 64 * 1024
    const { log, append } = await open(folder, nodeFileSystem, maximumBytes)
    const reader = await log.reader('eve')
    const bytes = (): number =>
      readdirSync(join(folder, 'spool'))
        .filter((name) => name.endsWith('.spool'))
        // the log removes delivered segments beside us: one that has just gone holds nothing
        .reduce(
          (sum, name) => sum + (statSync(join(folder, 'spool', name), { throwIfNoEntry: false })?.size ?? 0),
          0,
        )
    const all = Array.from({ length: 400 }, (_, i) => `alert ${i}`)
    for (const name of all) {
      append(name, 500)
      await acknowledgedAll(log, never)
      expect(bytes()).toBeLessThanOrEqual(maximumBytes + 508)
    }
    const got = await readAll(reader)
    expect(got).toEqual(all.slice(400 - got.length))
    expect(reader.dropped).toBe(400 - got.length)
    expect(reader.dropped).toBeGreaterThan(250)
    // what is delivered goes, but for the segment that is being written to
    expect(readdirSync(join(folder, 'spool')).filter((name) => name.endsWith('.spool'))).toHaveLength(1)
    await log.close()
    const { log: later } = await open(folder)
    expect((await later.reader('eve')).dropped).toBe(400 - got.length)
    await later.close()
  })

  it('counts an alert as dropped or delivers it, never both, when the limit removes the batch in hand', async () => {
    const { log, append } = await open(newFolder(), nodeFileSystem, 64 * 1024)
    const reader = await log.reader('eve')
    append('in hand', 500)
    await acknowledgedAll(log, never)
    const hand = await reader.read(10)
    for (let i = 0; i < 300; i++) append(`later ${i}`, 500)
    await acknowledgedAll(log, never)
    expect(await reader.read(10)).toBe(hand)
    await reader.commit(hand.first + 1)
    const rest = await readAll(reader)
    expect(1 + rest.length + reader.dropped).toBe(301)
    await log.close()
  })

  it('refuses and counts what does not fit into memory, or is longer than an alert can be', async () => {
    const { log, append } = await open(newFolder())
    expect(append('x', 70_000)).toBe(false)
    const taken = Array.from({ length: 40 }, () => append('y', 60_000)).filter(Boolean).length
    expect(taken).toBe(Math.floor((1 << 20) / 60_000))
    expect(log.refused).toBe(41 - taken)
    await acknowledgedAll(log, never)
    expect(log.acknowledged).toBe(taken)
    await log.close()
  })

  it('gives numbers on when everything is delivered and every segment is gone', async () => {
    const folder = newFolder()
    const first = await open(folder)
    const reader = await first.log.reader('eve')
    for (let i = 0; i < 20; i++) first.append(`old ${i}`)
    await acknowledgedAll(first.log, never)
    await readAll(reader)
    await first.log.close()
    for (const name of readdirSync(join(folder, 'spool'))) {
      if (name.endsWith('.spool')) truncateSync(join(folder, 'spool', name), 3)
    }
    const second = await open(folder)
    second.append('new')
    await acknowledgedAll(second.log, never)
    await second.log.close()
    const third = await open(folder)
    expect(await readAll(await third.log.reader('eve'))).toEqual(['new'])
    await third.log.close()
  })
})

describe('a disk that fails while outputs work', () => {
  it('holds up no output that works: it has every alert at once, and the others lose the oldest, counted', () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom('append', 'append', 'append', 'fast', 'slow', 'fail', 'mend', 'restart'), {
          minLength: 30,
          maxLength: 120,
        }),
        async (steps) => {
          const folder = newFolder()
          const faults = noFaults()
          // without flushes, which take most of the time
          const failing = faultyFiles(faults)
          const files: FileSystem = {
            ...failing,
            open: async (path, mode) => ({
              ...(await failing.open(path, mode)),
              sync: async () => undefined,
            }),
            syncFolder: async () => undefined,
          }
          const start = async () => {
            const { log, told, append } = await open(folder, files, 1 << 20, 2000)
            return { log, told, append, fast: await log.reader('fast'), slow: await log.reader('slow') }
          }
          let opened = await start()
          const taken: string[] = []
          const got = { fast: [] as string[], slow: [] as string[] }
          const next = { fast: 0, slow: 0 }
          const read = async (name: 'fast' | 'slow', limit: number): Promise<void> => {
            const { first, lines } = await opened[name].read(limit)
            got[name].push(...lines.map(text))
            next[name] = first + lines.length
            await opened[name].commit(next[name]).catch(() => undefined)
          }
          let isFailing = false
          for (const [i, step] of steps.entries()) {
            if (step === 'append') {
              if (opened.append(`alert ${i}`, 150)) taken.push(`alert ${i}`)
              if (isFailing) await hastyClock.sleep(1)
              else await acknowledgedAll(opened.log, never)
            } else if (step === 'fast') {
              while (isFailing && opened.log.pending > 0 && opened.log.lastError === null)
                await hastyClock.sleep(1)
              while (opened.fast.backlog > 0) await read('fast', 7)
              // whatever the disk does
              expect(got.fast.at(-1)).toBe(taken.at(-1))
            } else if (step === 'slow') await read('slow', 1)
            else if (step === 'restart') {
              if (isFailing) continue
              // as a delivery does whose place could not be kept
              for (const name of ['fast', 'slow'] as const) await opened[name].commit(next[name])
              await opened.log.close()
              opened = await start()
            } else {
              isFailing = step === 'fail'
              faults.fails = () => isFailing
              if (!isFailing) await acknowledgedAll(opened.log, never)
              else await hastyClock.sleep(1)
            }
          }
          faults.fails = () => false
          await acknowledgedAll(opened.log, never)
          expect(opened.log.lastError).toBeNull()
          for (const name of ['fast', 'slow'] as const) {
            while (opened[name].backlog > 0) await read(name, 7)
            // in order, once, and what is missing is counted
            expect(got[name]).toEqual(taken.filter((each) => got[name].includes(each)))
            expect(got[name].length + opened[name].dropped, name).toBe(taken.length)
          }
          await opened.log.close()
        },
      ),
      { numRuns: sampleCount(200) },
    ))

  it('keeps what an output has not taken, and loses at the end what neither the disk nor all outputs have', async () => {
    const faults = noFaults()
    const { log, append, told } = await open(newFolder(), faultyFiles(faults), 1 << 20, 2000)
    const [fast, slow] = [await log.reader('fast'), await log.reader('slow')]
    faults.fails = () => true
    append('a', 150)
    await expect.poll(() => log.lastError, { timeout: 10_000 }).not.toBeNull()
    const { first, lines } = await fast.read(9)
    await fast.commit(first + lines.length).catch(() => undefined)
    for (let i = 0; i < 13; i++) append(`alert ${i}`, 150)
    // ten have room; of fourteen the one that an output has went, and the others were refused
    expect([fast.backlog, slow.backlog, fast.dropped, slow.dropped, log.refused]).toEqual([13, 13, 0, 1, 0])
    expect(append('one more', 150)).toBe(false)
    expect(told.join()).toMatch(/outputs that are behind lose alerts/)
    await log.close()
    expect([log.lost, fast.dropped, slow.dropped, fast.backlog]).toEqual([13, 13, 14, 0])
  })
})

describe('damage', () => {
  it('of forged lines with valid checksums loses only these lines, counted, and blocks no output', async () => {
    const folder = newFolder()
    const { log } = await open(folder)
    const reader = await log.reader('eve')
    const made = ['no JSON', '7', '{"timestamp":1,"oddflow":{"id":"x"}}', '{"timestamp":""}', '[]', '\u0000']
    const lines = fc
      .sample(fc.array(fc.integer({ min: -2, max: made.length - 1 })), { numRuns: 1, seed: 7 })[0]!
      .concat(0, -1, 1, 2, -1, -1, 3, 4, 5, -1, 0)
    for (const [i, which] of lines.entries()) {
      log.append(which < 0 ? line(`alert ${i}`) : new TextEncoder().encode(made[which]))
    }
    await acknowledgedAll(log, never)
    expect(reader.backlog).toBe(lines.length)
    await log.close()
    const again = await open(folder)
    const later = await again.log.reader('eve')
    again.append('after')
    await acknowledgedAll(again.log, never)
    const events = lines.flatMap((which, i) => (which < 0 ? [`alert ${i}`] : []))
    expect(await readAll(later, 3)).toEqual([...events, 'after'])
    expect(later.dropped).toBe(lines.length - events.length)
    expect(again.told.join()).toMatch(/damaged or gone/)
    await again.log.close()
  })

  it.each([1, 5, 9, 30, 107])('a torn end of %i bytes costs nothing that was acknowledged', async (torn) => {
    const folder = newFolder()
    const { log, append } = await open(folder)
    for (const name of ['a', 'b']) append(name, 100)
    await acknowledgedAll(log, never)
    await log.close()
    const [segment] = readdirSync(join(folder, 'spool'))
    const path = join(folder, 'spool', segment!)
    const bytes = readFileSync(path)
    // what a kill in the middle of writing the next record leaves
    writeFileSync(path, Buffer.concat([bytes, bytes.subarray(16, 16 + torn)]))
    const again = await open(folder)
    again.append('c')
    await acknowledgedAll(again.log, never)
    expect(await readAll(await again.log.reader('eve'))).toEqual(['a', 'b', 'c'])
    await again.log.close()
  })

  /** Alerts in three segments, of which `half` has delivered seventeen, and `none` none. */
  async function damageable(): Promise<{ folder: string; names: string[]; segments: string[] }> {
    const folder = newFolder()
    const { log, append } = await open(folder, nodeFileSystem, 64 * 1024)
    const half = await log.reader('half')
    await log.reader('none')
    const names = Array.from({ length: 46 }, (_, i) => `alert ${i}`)
    for (const name of names) {
      append(name, 500)
      await acknowledgedAll(log, never)
    }
    const { first, lines } = await half.read(17)
    await half.commit(first + lines.length)
    await log.close()
    const spool = join(folder, 'spool')
    const segments = readdirSync(spool).filter((name) => name.endsWith('.spool'))
    expect(segments).toHaveLength(3)
    return { folder, names, segments: segments.sort().map((name) => join(spool, name)) }
  }
  /** Opens it again, with a further alert, and gives what comes; all is delivered or counted, and told of once. */
  async function outcome(folder: string, names: readonly string[], where: string): Promise<number> {
    const { log, append, told } = await open(folder, nodeFileSystem, 64 * 1024)
    const [none, half] = [await log.reader('none'), await log.reader('half')]
    append('after')
    await acknowledgedAll(log, never)
    const [all, rest] = [await readAll(none, 7), await readAll(half, 7)]
    const lost = names.filter((name) => !all.includes(name))
    expect(all, where).toEqual([...names.filter((name) => !lost.includes(name)), 'after'])
    expect(none.dropped, where).toBe(lost.length)
    expect(rest, where).toEqual(all.filter((name) => name === 'after' || names.indexOf(name) >= 17))
    expect(half.dropped, where).toBe(lost.filter((name) => names.indexOf(name) >= 17).length)
    expect([none.backlog, half.backlog], where).toEqual([0, 0])
    if (lost.length > 0) expect(told.length, where).toBeGreaterThan(0)
    expect(new Set(told).size, where).toBe(told.length)
    const spans = told.flatMap((line) => /: (an|\d+) alerts? /.exec(line)?.[1] ?? [])
    const counted = spans.reduce((sum, count) => sum + (count === 'an' ? 1 : Number(count)), 0)
    expect(counted, where).toBe(lost.length)
    await log.close()
    const again = await open(folder, nodeFileSystem, 64 * 1024)
    expect((await again.log.reader('none')).dropped, where).toBe(lost.length)
    expect(again.told, where).toEqual([])
    await again.log.close()
    return lost.length
  }
  const RECORD = 508

  it('of a bit, whichever it is, costs one alert, counted and told of once', async () => {
    const { folder, names, segments } = await damageable()
    const sound = segments.map((path) => readFileSync(path))
    const rng = createRng(1)
    for (const trial of sampleOf(Array(36).keys(), 0.25)) {
      const copy = newFolder()
      cpSync(folder, copy, { recursive: true })
      const which = trial % 3
      const bytes = Buffer.from(sound[which]!)
      // the header, a length, a CRC, and anywhere
      const at = [
        rng.nextBelow(16),
        16 + RECORD * rng.nextBelow(5) + rng.nextBelow(8),
        rng.nextBelow(bytes.length),
      ]
      const byte = at[Math.floor(trial / 3) % 3]!
      const bit = rng.nextBelow(8)
      bytes[byte]! ^= 1 << bit
      const where = `segment ${which}, byte ${byte}, bit ${bit}`
      writeFileSync(join(copy, 'spool', basename(segments[which]!)), bytes)
      expect(await outcome(copy, names, where), where).toBe(byte < 16 ? 0 : 1)
    }
  })

  it('of a piece or of the whole of a segment is counted to the alert', async () => {
    const { folder, names, segments } = await damageable()
    const rng = createRng(2)
    for (const [which, path] of segments.entries()) {
      const sound = readFileSync(path)
      const records = Math.floor((sound.length - 16) / RECORD)
      const kinds: Record<string, () => { bytes: Buffer | null; lost?: number }> = {
        'is gone': () => ({ bytes: null, lost: records }),
        'is empty': () => ({ bytes: Buffer.alloc(0), lost: records }),
        'is zeros': () => ({ bytes: Buffer.alloc(sound.length), lost: records }),
        'is noise': () => ({ bytes: Buffer.from(sound.map(() => rng.nextBelow(256))), lost: records }),
        'has no header': () => ({ bytes: Buffer.concat([Buffer.alloc(16), sound.subarray(16)]), lost: 0 }),
        'is cut': () => ({ bytes: sound.subarray(0, 16 + 4 * RECORD + 100), lost: records - 4 }),
        'has a hole': () => {
          const bytes = Buffer.from(sound)
          bytes.fill(0, 16 + 2 * RECORD - 3, 16 + 5 * RECORD + 9)
          return { bytes, lost: 5 }
        },
        'has a hole of letters': () => {
          const bytes = Buffer.from(sound)
          bytes.fill('x', 16 + 1 * RECORD + 30, 16 + 7 * RECORD + 30)
          return { bytes, lost: 7 }
        },
        'lacks a piece': () => ({
          bytes: Buffer.concat([sound.subarray(0, 16 + RECORD + 40), sound.subarray(16 + 3 * RECORD + 40)]),
          lost: 3,
        }),
        'ends in zeros': () => {
          const bytes = Buffer.from(sound)
          bytes.fill(0, 16 + 6 * RECORD)
          return { bytes, lost: records - 6 }
        },
      }
      for (const [kind, make] of sampleOf(Object.entries(kinds), 0.3)) {
        const copy = newFolder()
        cpSync(folder, copy, { recursive: true })
        const { bytes, lost } = make()
        const target = join(copy, 'spool', basename(path))
        if (bytes === null) rmSync(target)
        else writeFileSync(target, bytes)
        const where = `segment ${which} ${kind}`
        expect(await outcome(copy, names, where), where).toBe(lost)
      }
    }
  })

  it('of a segment that grew beyond all bounds loses no other alert, and takes no memory for the rest', async () => {
    const { folder, names, segments } = await damageable()
    for (const [which, path] of segments.entries()) {
      const copy = newFolder()
      cpSync(folder, copy, { recursive: true })
      const target = join(copy, 'spool', basename(path))
      const bytes = readFileSync(target)
      bytes[16 + 2 * RECORD + 20]! ^= 1
      writeFileSync(target, bytes)
      truncateSync(target, 3 * 2 ** 30)
      const { log, told } = await open(copy)
      const reader = await log.reader('none')
      const where = `segment ${which}`
      expect(await readAll(reader, 7), where).toHaveLength(names.length - 1)
      expect(reader.dropped, where).toBe(1)
      const isCut = told.some((line) => line.includes('bytes are not alerts'))
      expect(isCut, where).toBe(which === segments.length - 1)
      await log.close()
    }
  })

  it('of a place file, whichever bit it is, costs nothing: alerts come again', async () => {
    const { folder, names } = await damageable()
    const sound = readFileSync(join(folder, 'spool', 'half.place'))
    for (const byte of sampleOf(sound.keys())) {
      const copy = newFolder()
      cpSync(folder, copy, { recursive: true })
      const bytes = Buffer.from(sound)
      bytes[byte]! ^= 1 << (byte % 7)
      const path = join(copy, 'spool', 'half.place')
      writeFileSync(path, bytes)
      const { log, told } = await open(copy, nodeFileSystem, 64 * 1024)
      const reader = await log.reader('half')
      const got = await readAll(reader)
      // a name of a number that is damaged is none, but for that of the CRC, whose numbers are whole
      const isAside = existsSync(`${path}.damaged`)
      expect(got, `byte ${byte}`).toEqual(isAside ? names : names.slice(17))
      expect(told, `byte ${byte}`).toEqual(isAside ? [expect.stringContaining(path)] : [])
      expect(reader.dropped).toBe(0)
      await log.close()
    }
  })
})

/** Three rounds of alerts and delivery, the third after a restart. Rejections of the output's own are borne. */
async function scenario(
  folder: string,
  files: FileSystem,
): Promise<{ acknowledged: string[]; delivered: string[] }> {
  const acknowledged: string[] = []
  const delivered: string[] = []
  for (let run = 0; run < 2; run++) {
    const opened = await open(folder, files, 64 * 1024).catch(() => null)
    if (opened === null) continue
    const reader = await opened.log.reader('eve').catch(() => null)
    for (let round = 0; round < 2; round++) {
      for (let i = 0; i < 6; i++) opened.append(`run ${run} round ${round} alert ${i}`, 3000)
      const patience = new AbortController()
      const timer = setTimeout(() => patience.abort(), 60)
      await acknowledgedAll(opened.log, patience.signal)
      clearTimeout(timer)
      if (reader !== null) await readAll(reader, 1000, delivered).catch(() => [])
    }
    await opened.log.close()
    acknowledged.push(...opened.acknowledged)
  }
  return { acknowledged, delivered }
}

/** What is delivered on a sound disk afterwards. */
async function aftermath(folder: string): Promise<string[]> {
  const { log } = await open(folder)
  const left = await readAll(await log.reader('eve'))
  await log.close()
  return left
}

describe('each write, flush, cut, rename, removal and new file in turn', async () => {
  const faultless = noFaults()
  await scenario(newFolder(), faultyFiles(faultless))
  const steps = faultless.seen.map((kind, step) => ({ kind, step }))

  it('are all among the steps', () => {
    expect(new Set(faultless.seen)).toEqual(
      new Set(['create', 'write', 'sync', 'syncFolder', 'rename', 'remove']),
    )
    expect(steps.length).toBeGreaterThan(50)
  })

  it.each(['once', 'for good'])('failing %s: nothing acknowledged is lost', async (how) => {
    let losses = 0
    const tried = sampleOf(steps)
    for (const { kind, step } of tried) {
      const folder = newFolder()
      const faults = noFaults()
      faults.fails = (at) => (how === 'once' ? at === step : at >= step)
      const { acknowledged, delivered } = await scenario(folder, faultyFiles(faults))
      const all = new Set([...delivered, ...(await aftermath(folder))])
      const lost = acknowledged.filter((name) => !all.has(name))
      expect(lost, `step ${step}, ${kind}, ${how}`).toEqual([])
      losses += 24 - acknowledged.length
      if (how === 'once') expect(acknowledged.length, `step ${step}, ${kind}`).toBeGreaterThanOrEqual(12)
    }
    // a disk that fails for good acknowledges less: the faults did happen
    if (how === 'for good') expect(losses).toBeGreaterThan(tried.length)
  })
})
