/** Files of evidence are whole or not there, and within their bytes, whichever step of the disk fails. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { encodePcap } from '@oddflow/capture'
import { describe, expect, it } from 'vitest'
import { openEvidence } from '../../src/evidence/evidence.js'
import { type FileSystem, nodeFileSystem } from '../../src/files/file-system.js'
import { faultyFiles, noFaults } from '../support/faulty-files.js'
import { temporaryFolders } from '../support/folder.js'
import { sampleAlert } from '../support/sample-alert.js'

const newFolder = temporaryFolders()
const frames = [
  { timestampMicros: 1_700_000_000_000_000, bytes: new Uint8Array(200).fill(7), wireBytes: 200 },
]
const whole = Buffer.from(encodePcap(frames, { linkType: 1 }))
const ring = { add() {}, packetsOf: () => ({ frames, linkType: 1 }) }
const ALERTS = 6
/** Room for three. */
const limitBytes = 3 * whole.length + 10

/** Six alerts, one after another. */
async function scenario(directory: string, files: FileSystem) {
  const told: boolean[] = []
  const onError = (error: unknown): void => void told.push(error !== null)
  const evidence = await openEvidence({ files, directory, limitBytes, ring, onError })
  for (let i = 0; i < ALERTS; i++) {
    evidence.take(sampleAlert())
    await evidence.close()
  }
  return { ...evidence.report(), told }
}
const bytesIn = (folder: string): number =>
  readdirSync(folder).reduce((sum, name) => sum + readFileSync(join(folder, name)).length, 0)

it('a folder that is removed while the agent runs is made again, and holds what comes then', async () => {
  const directory = newFolder()
  const onError = (error: unknown): void => expect.fail(String(error))
  const evidence = await openEvidence({ files: nodeFileSystem, directory, limitBytes, ring, onError })
  for (let i = 0; i < ALERTS; i++) {
    rmSync(directory, { recursive: true })
    evidence.take(sampleAlert())
    await evidence.close()
    expect(readdirSync(directory)).toHaveLength(1)
  }
  expect(evidence.report()).toMatchObject({ written: ALERTS, failed: 0 })
})

describe('each step in turn', async () => {
  const counting = noFaults()
  await scenario(newFolder(), faultyFiles(counting))
  const steps = [...counting.seen]

  it('is among those that fail', () => {
    expect(new Set(steps)).toEqual(new Set(['create', 'write', 'rename', 'remove']))
  })

  it.each(['once', 'for good'])('failing %s: whole files within their bytes, each counted', async (how) => {
    let failures = 0
    for (const [step, kind] of steps.entries()) {
      const where = `step ${step}, ${kind}, ${how}`
      const folder = newFolder()
      const faults = noFaults()
      faults.fails = (at) => (how === 'once' ? at === step : at >= step)
      const { written, failed, told } = await scenario(folder, faultyFiles(faults))
      expect(written + failed, where).toBe(ALERTS)
      failures += failed
      // told of when it begins, and when it works again
      const isOver = how === 'once' && failed > 0 && told.length > 1
      expect(told, where).toEqual(failed === 0 ? [] : isOver ? [true, false] : [true])
      const names = readdirSync(folder)
      const unfinished = names.filter((name) => name.endsWith('.new'))
      // one that cannot be removed, on a disk that fails for good
      expect(unfinished.length, where).toBeLessThanOrEqual(how === 'once' ? 0 : 1)
      for (const name of names.filter((each) => !unfinished.includes(each))) {
        expect(readFileSync(join(folder, name)).equals(whole), where).toBe(true)
      }
      expect(bytesIn(folder), where).toBeLessThanOrEqual(
        limitBytes + (unfinished.length === 0 ? 0 : whole.length),
      )
      await scenario(folder, nodeFileSystem)
      expect(readdirSync(folder).length, where).toBe(3)
      expect(bytesIn(folder), where).toBeLessThanOrEqual(limitBytes)
    }
    expect(failures).toBeGreaterThan(how === 'once' ? 15 : 50)
  })
})

it("an alert has the number of its flow's packets in the file, of all, and of later ones", async () => {
  const onError = (): void => undefined
  const at = (timestampMicros: number) => ({ ...frames[0], timestampMicros })
  const { startMicros } = sampleAlert().flow
  const times = [0, 100, 250_001, 250_002, 400_000].map((after) => at(startMicros + after))
  const some = { add() {}, packetsOf: () => ({ frames: times, linkType: 1 }) }
  const evidence = await openEvidence({
    files: nodeFileSystem,
    directory: newFolder(),
    limitBytes: 10_000,
    ring: some,
    onError,
  })
  const alert = sampleAlert({ flow: { packets: 12 } })
  expect(evidence.take(alert)).toEqual({
    file: `${alert.id}.pcap`,
    packets: { kept: 3, of: 12, later: 2 },
  })
  await evidence.close()
})

it('what a kill has left half done goes at the next start, and nothing else', async () => {
  const folder = newFolder()
  writeFileSync(join(folder, `${'a'.repeat(32)}.pcap.new`), 'x')
  writeFileSync(join(folder, 'notes.txt'), 'mine')
  await openEvidence({ files: nodeFileSystem, directory: folder, limitBytes, ring, onError() {} })
  expect(readdirSync(folder)).toEqual(['notes.txt'])
})
