/**
 * Evidence: for each alert that is given out a small capture of its flow, named by the alert's id, within a budget of
 * disk space: the oldest file goes for a new one.
 *
 * It never holds up an alert: files are written beside the pipeline, a few wait at most, and what does not fit or
 * cannot be written is counted. A file is whole or not there. What was kept of the last packets reaches back only so far, so
 * the alert says how many of its flow's packets the file holds. An alert that stands for others has none of its own.
 */
import { join } from 'node:path'
import { encodePcap } from '@oddflow/capture'
import type { Alert } from '../alerts/alert.js'
import { type FileSystem, hasCode, isOutOfFiles } from '../files/file-system.js'
import type { FrameRing } from './frame-ring.js'

export interface EvidenceReport {
  readonly written: number
  /** Too many at a time. */
  readonly skipped: number
  readonly failed: number
  /** Oldest files that went for new ones. */
  readonly removed: number
}

export interface KeptEvidence {
  /** The file's name. */
  readonly file: string
  readonly packets: EvidencePackets
}

export interface EvidencePackets {
  /** Packets in the file that the verdict knew of. */
  readonly kept: number
  /** Packets that the flow had at the verdict. */
  readonly of: number
  /** Packets in the file that came after the verdict. */
  readonly later: number
}

export interface Evidence {
  /** null where there will be none. */
  take(alert: Alert): KeptEvidence | null
  report(): EvidenceReport
  /** Resolves when nothing waits to be written. */
  close(): Promise<void>
}

export interface EvidenceOptions {
  readonly files: FileSystem
  readonly directory: string
  readonly limitBytes: number
  readonly ring: FrameRing
  /** Called when files begin to fail and when they work again (null). */
  readonly onTrouble: (trouble: unknown) => void
}

const PACKETS = 64
const WAITING = 64
const NAME = /^[0-9a-f]{32}\.pcap$/
const UNFINISHED = /^[0-9a-f]{32}\.pcap\.new$/

/** Makes the folder and counts what is there. Rejects with the error of the file system. */
export async function openEvidence(options: EvidenceOptions): Promise<Evidence> {
  const { files, directory, limitBytes, ring } = options
  await files.makeFolder(directory)
  const kept: { name: string; bytes: number }[] = []
  const names = await files.list(directory)
  // what a kill in the middle of a file has left
  for (const name of names.filter((each) => UNFINISHED.test(each))) {
    await files.remove(join(directory, name)).catch(() => undefined)
  }
  for (const name of names.filter((each) => NAME.test(each))) {
    const file = await files.open(join(directory, name), 'read').catch((error: unknown) => {
      if (isOutOfFiles(error)) throw error
      // a folder, a pipe or a link of such a name is none of ours
      return null
    })
    if (file === null) continue
    try {
      kept.push({ name, bytes: await file.size() })
    } finally {
      await file.close()
    }
  }
  let [written, skipped, failed, removed, waiting] = [0, 0, 0, 0, 0]
  let writing: Promise<void> = Promise.resolve()
  let isTroubled = false

  const keepWithinBounds = async (more: number): Promise<void> => {
    let total = kept.reduce((sum, { bytes }) => sum + bytes, more)
    while (total > limitBytes && kept.length > 0) {
      const [oldest] = kept
      // one that cannot be removed still takes its room
      await files.remove(join(directory, oldest.name)).catch((error: unknown) => {
        if (!hasCode(error, 'ENOENT')) throw error
      })
      kept.shift()
      total -= oldest.bytes
      removed++
    }
  }
  const write = async (name: string, bytes: Uint8Array): Promise<void> => {
    await keepWithinBounds(bytes.length)
    const path = join(directory, name)
    await files.remove(`${path}.new`).catch(() => undefined)
    try {
      const file = await files.open(`${path}.new`, 'create')
      try {
        await file.write(bytes, 0)
      } finally {
        await file.close()
      }
      await files.rename(`${path}.new`, path)
    } catch (error) {
      // half a file would take room that nobody counts
      await files.remove(`${path}.new`).catch(() => undefined)
      throw error
    }
    const earlier = kept.findIndex((each) => each.name === name)
    if (earlier !== -1) kept.splice(earlier, 1)
    kept.push({ name, bytes: bytes.length })
  }
  return {
    take(alert) {
      if (alert.folded !== null) return null
      const { flow, protocol, sourceWords, destinationWords } = alert
      const { sourcePort, destinationPort } = flow
      const ends = { protocol, sourceWords, destinationWords, sourcePort, destinationPort }
      if (waiting >= WAITING) {
        skipped++
        return null
      }
      const { frames, linkType } = ring.packetsOf(ends, flow.startMicros, PACKETS)
      if (frames.length === 0) return null
      const name = `${alert.id}.pcap`
      const bytes = encodePcap(frames, { linkType })
      if (bytes.length > limitBytes) {
        skipped++
        return null
      }
      waiting++
      writing = writing
        .then(() => write(name, bytes))
        .then(
          () => {
            written++
            if (isTroubled) options.onTrouble(null)
            isTroubled = false
          },
          (error: unknown) => {
            failed++
            if (!isTroubled) options.onTrouble(error)
            isTroubled = true
          },
        )
        .finally(() => {
          waiting--
        })
      const kept = frames.filter(({ timestampMicros }) => timestampMicros <= alert.atMicros).length
      return { file: name, packets: { kept, of: flow.packets, later: frames.length - kept } }
    },
    report: () => ({ written, skipped, failed, removed }),
    close: () => writing,
  }
}
