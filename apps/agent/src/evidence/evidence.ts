/**
 * Evidence: for each alert that is given out a small capture of its flow, named by the alert's id, within a budget of disk
 * space: the oldest file goes for a new one.
 *
 * It never holds up an alert: a few files at most wait to be written, and what does not fit or cannot be written is counted. A
 * file is whole or not there. The packets kept reach back only so far, so the alert says how many of its flow's the file holds.
 */
import { join } from 'node:path'
import { encodePcap, type FrameBatch, PACKET_OK, type PacketBatch, type PcapFrame } from '@oddflow/capture'
import { fileError } from '@oddflow/program'
import type { Alert } from '../alerts/alert.js'
import type { Settings } from '../config/settings.js'
import { type FileSystem, hasCode, isOutOfFiles } from '../files/file-system.js'
import { replaceFile } from '../files/state-file.js'
import type { AgentEnvironment } from '../pipeline/environment.js'

const SNAP_BYTES = 256
const SLOTS = 8192
const WORDS = 11

const FRAME_RING_BYTES = SLOTS * (SNAP_BYTES + 4 * WORDS + 8 + 12)

/**
 * The last packets that passed, SNAP_BYTES of each, in a fixed number of slots that are filled round and round. A flow's packets
 * are found by its ends and ports in either direction, as the decoder found them (within a tunnel, its inner ones).
 */
function createFrameRing() {
  const bytes = new Uint8Array(SLOTS * SNAP_BYTES)
  /** Source, destination, ports, protocol. */
  const keys = new Uint32Array(SLOTS * WORDS)
  const times = new Float64Array(SLOTS)
  const lengths = new Uint32Array(SLOTS)
  const wireLengths = new Uint32Array(SLOTS)
  const linkTypes = new Uint32Array(SLOTS)
  let added = 0

  const isOf = (slot: number, key: Uint32Array): boolean => {
    for (let i = 0; i < WORDS; i++) if (keys[slot * WORDS + i] !== key[i]) return false
    return true
  }
  return {
    add(frames: FrameBatch, packets: PacketBatch): void {
      for (let i = 0; i < packets.count; i++) {
        if (packets.status[i] !== PACKET_OK) continue
        const slot = added++ % SLOTS
        const length = Math.min(SNAP_BYTES, frames.capturedBytes[i])
        const from = frames.offset[i]
        bytes.set(frames.data.subarray(from, from + length), slot * SNAP_BYTES)
        for (let word = 0; word < 4; word++) {
          keys[slot * WORDS + word] = packets.sourceAddress[4 * i + word]
          keys[slot * WORDS + 4 + word] = packets.destinationAddress[4 * i + word]
        }
        keys[slot * WORDS + 8] = packets.sourcePort[i]
        keys[slot * WORDS + 9] = packets.destinationPort[i]
        keys[slot * WORDS + 10] = packets.protocol[i]
        times[slot] = frames.timestampMicros[i]
        lengths[slot] = length
        wireLengths[slot] = frames.wireBytes[i]
        linkTypes[slot] = frames.linkType[i]
      }
    },
    /** The first packets of a flow from a time on that are still there, and the link type of all of them. */
    packetsOf(
      of: Pick<Alert, 'protocol' | 'sourceWords' | 'destinationWords' | 'flow'>,
      startMicros: number,
      limit: number,
    ): { frames: PcapFrame[]; linkType: number } {
      const { protocol, sourceWords, destinationWords, flow } = of
      const { sourcePort, destinationPort } = flow
      const there = Uint32Array.of(...sourceWords, ...destinationWords, sourcePort, destinationPort, protocol)
      const back = Uint32Array.of(...destinationWords, ...sourceWords, destinationPort, sourcePort, protocol)
      const frames: PcapFrame[] = []
      let linkType = -1
      for (let n = Math.max(0, added - SLOTS); n < added && frames.length < limit; n++) {
        const slot = n % SLOTS
        if (times[slot] < startMicros || !(isOf(slot, there) || isOf(slot, back))) continue
        if (linkType === -1) linkType = linkTypes[slot]
        if (linkTypes[slot] !== linkType) continue
        frames.push({
          timestampMicros: times[slot],
          bytes: bytes.slice(slot * SNAP_BYTES, slot * SNAP_BYTES + lengths[slot]),
          wireBytes: wireLengths[slot],
        })
      }
      return { frames, linkType }
    },
  }
}

export interface KeptEvidence {
  /** The file's name. */
  readonly file: string
  /** Packets in the file: `kept` up to the verdict, `of` all that the flow had then, and `later` ones. */
  readonly packets: { readonly kept: number; readonly of: number; readonly later: number }
}

interface EvidenceOptions {
  readonly files: FileSystem
  readonly directory: string
  readonly limitBytes: number
  readonly ring: ReturnType<typeof createFrameRing>
  /** Called when files begin to fail and when they work again (null). */
  readonly onError: (error: unknown) => void
}

const PACKETS = 64
const WAITING = 64
const NAME = /^[0-9a-f]{32}\.pcap$/
const UNFINISHED = /^[0-9a-f]{32}\.pcap\.new$/

interface EvidenceFile {
  readonly name: string
  readonly bytes: number
}

/** Makes the folder and counts its files. Rejects with the error of the file system. */
export async function openEvidence(options: EvidenceOptions) {
  const { files, directory } = options
  await files.makeFolder(directory)
  const kept: EvidenceFile[] = []
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
  return new Evidence(options, kept)
}

export class Evidence {
  readonly #options: EvidenceOptions
  /** The oldest first. */
  readonly #kept: EvidenceFile[]
  /** `skipped`: too many at a time; `removed`: oldest files that went for new ones. */
  readonly #counts = { written: 0, skipped: 0, failed: 0, removed: 0 }
  #waiting = 0
  #writing: Promise<void> = Promise.resolve()
  #hasFailed = false

  constructor(options: EvidenceOptions, kept: EvidenceFile[]) {
    this.#options = options
    this.#kept = kept
  }

  report() {
    return { ...this.#counts }
  }

  /** Resolves when nothing waits to be written. */
  close(): Promise<void> {
    return this.#writing
  }

  /** null where there will be none. */
  take(alert: Alert): KeptEvidence | null {
    if (alert.folded !== null) return null
    const { flow } = alert
    const { ring, limitBytes } = this.#options
    if (this.#waiting >= WAITING) {
      this.#counts.skipped++
      return null
    }
    const { frames, linkType } = ring.packetsOf(alert, flow.startMicros, PACKETS)
    if (frames.length === 0) return null
    const name = `${alert.id}.pcap`
    const bytes = encodePcap(frames, { linkType })
    if (bytes.length > limitBytes) {
      this.#counts.skipped++
      return null
    }
    this.#waiting++
    this.#writing = this.#writing
      .then(() => this.#write(name, bytes))
      .then(
        () => {
          this.#counts.written++
          if (this.#hasFailed) this.#options.onError(null)
          this.#hasFailed = false
        },
        (error: unknown) => {
          this.#counts.failed++
          if (!this.#hasFailed) this.#options.onError(error)
          this.#hasFailed = true
        },
      )
      .finally(() => {
        this.#waiting--
      })
    const kept = frames.filter(({ timestampMicros }) => timestampMicros <= alert.atMicros).length
    return { file: name, packets: { kept, of: flow.packets, later: frames.length - kept } }
  }

  async #write(name: string, bytes: Uint8Array): Promise<void> {
    const { files, directory } = this.#options
    await this.#makeRoom(bytes.length)
    const path = join(directory, name)
    // it may have been removed
    await files.makeFolder(directory)
    await replaceFile(files, path, bytes, false)
    const earlier = this.#kept.findIndex((each) => each.name === name)
    if (earlier !== -1) this.#kept.splice(earlier, 1)
    this.#kept.push({ name, bytes: bytes.length })
  }

  async #makeRoom(more: number): Promise<void> {
    const { files, directory, limitBytes } = this.#options
    let total = this.#kept.reduce((sum, { bytes }) => sum + bytes, more)
    while (total > limitBytes && this.#kept.length > 0) {
      const [oldest] = this.#kept
      // one that cannot be removed still takes its room
      await files.remove(join(directory, oldest.name)).catch((error: unknown) => {
        if (!hasCode(error, 'ENOENT')) throw error
      })
      this.#kept.shift()
      total -= oldest.bytes
      this.#counts.removed++
    }
  }
}

/** null where no packets are kept. */
export async function openKeptPackets({ evidence }: Settings, { files, log }: AgentEnvironment) {
  if (evidence === null) return null
  const { directory, limitBytes } = evidence
  const ring = createFrameRing()
  const onError = (error: unknown): void => {
    if (error === null) log.info(`${directory}: works again`)
    else log.warn(`${fileError('write', directory, error).message}; packets of alerts are not saved`)
  }
  try {
    return { ring, evidence: await openEvidence({ files, directory, limitBytes, ring, onError }) }
  } catch (error) {
    throw fileError('write', directory, error)
  }
}

/** Memory that it takes. */
export function keptPacketsBytes({ evidence }: Settings): number {
  return evidence === null ? 0 : FRAME_RING_BYTES
}
