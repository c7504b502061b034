import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import {
  createCaptureReader,
  createPacketBatch,
  decodePackets,
  describePacketCheck,
  encodePcap,
  PACKET_STATUS_NAMES,
  PacketCheck,
  type PacketCheckCounts,
  type PcapFrame,
  packetCheckWarnings,
} from '../src/index.js'
import { readCapture } from '../src/node/index.js'
import { DUPLICATE_WINDOW_MICROS } from '../src/packet-check.js'
import { goldenCaptures, hasProgram, sharedMissing } from './support/shared.js'

/** One IPv4 packet with a right checksum; `id` and `payload` tell packets apart. */
function ipv4({
  id = 1,
  ttl = 64,
  payload = [1, 2, 3],
  protocol = 17,
  destination = [192, 0, 2, 2],
} = {}): number[] {
  const head = [0x45, 0, 0, 28 + payload.length, id >>> 8, id & 255, 0x40, 0, ttl, protocol, 0, 0]
  const bytes = [...head, 192, 0, 2, 1, ...destination]
  let sum = 0
  for (let k = 0; k < 20; k += 2) sum += (bytes[k]! << 8) | bytes[k + 1]!
  sum = (sum & 0xffff) + (sum >>> 16)
  sum = ~((sum & 0xffff) + (sum >>> 16)) & 0xffff
  bytes[10] = sum >>> 8
  bytes[11] = sum & 255
  return [...bytes, 0x30, 0x39, 0, 53, 0, 8 + payload.length, 0, 0, ...payload]
}

const ETHERNET = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]
const frame = (
  timestampMicros: number,
  ip: readonly number[],
  link: readonly number[] = ETHERNET,
): PcapFrame => ({
  timestampMicros,
  bytes: Uint8Array.from([...link, ...ip]),
})

function check(
  frames: readonly PcapFrame[],
  options = {},
): { counts: PacketCheckCounts; statuses: string[] } {
  return checkCapture(encodePcap(frames), options)
}

function checkCapture(
  capture: Uint8Array,
  options: ConstructorParameters<typeof PacketCheck>[0] = {},
): { counts: PacketCheckCounts; statuses: string[] } {
  const checker = new PacketCheck(options)
  const reader = createCaptureReader({ batchFrames: 3 })
  const packets = createPacketBatch(3)
  const statuses: string[] = []
  reader.push(capture)
  for (let batch = reader.read(); batch !== null; batch = reader.read()) {
    decodePackets(batch, packets)
    for (let i = 0; i < packets.count; i++) {
      checker.look(batch, packets, i)
      statuses.push(PACKET_STATUS_NAMES[packets.status[i]!]!)
    }
  }
  return { counts: { ...checker.counts }, statuses }
}

describe('copies of a packet', () => {
  it('are found in either mode, and marked where they are to be dropped', () => {
    const frames = [frame(0, ipv4()), frame(2, ipv4()), frame(3, ipv4({ id: 2 })), frame(4, ipv4())]
    expect(check(frames)).toMatchObject({
      counts: { ipPackets: 4, duplicatePackets: 2, droppedDuplicates: 0 },
      statuses: ['ok', 'ok', 'ok', 'ok'],
    })
    expect(check(frames, { dropDuplicates: true })).toMatchObject({
      counts: { ipPackets: 4, duplicatePackets: 2, droppedDuplicates: 2 },
      statuses: ['ok', 'duplicate', 'ok', 'duplicate'],
    })
  })

  it('may have another link header, VLAN tag, padding or check sequence, and a time before', () => {
    const other = [2, 9, 9, 9, 9, 9, 2, 8, 8, 8, 8, 8]
    const frames = [
      frame(1_000_000, ipv4()),
      frame(1_000_100, ipv4(), [...other, 8, 0]),
      frame(1_000_200, ipv4(), [...other, 0x81, 0, 0, 10, 8, 0]),
      frame(999_900, [...ipv4(), 0, 0, 0, 0, 7, 7, 7, 7]),
    ]
    expect(check(frames, { dropDuplicates: true }).counts.droppedDuplicates).toBe(3)
  })

  it('are within the window of the first, so a packet that is sent all the time is not lost', () => {
    const times = [0, DUPLICATE_WINDOW_MICROS, DUPLICATE_WINDOW_MICROS + 1, 2 * DUPLICATE_WINDOW_MICROS + 2]
    const { statuses } = check(
      times.map((time) => frame(time, ipv4())),
      { dropDuplicates: true },
    )
    expect(statuses).toEqual(['ok', 'duplicate', 'ok', 'ok'])
  })

  it('are not packets that differ in any byte of IP, as retransmissions do', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 0, maxLength: 120 }),
        fc.nat({ max: 0xffff }),
        fc.nat(),
        fc.integer({ min: 1, max: 255 }),
        (payload, id, where, change) => {
          const packet = ipv4({ id, payload: [...payload] })
          const changed = packet.slice()
          const at = where % packet.length
          changed[at]! ^= change
          for (const dropDuplicates of [false, true]) {
            const { counts } = check([frame(0, packet), frame(1, changed)], { dropDuplicates })
            expect(counts.duplicatePackets).toBe(0)
          }
          const same = check([frame(0, packet), frame(1, packet)], { dropDuplicates: true, hashSeed: 7 })
          expect(same.counts.droppedDuplicates).toBe(1)
        },
      ),
      { numRuns: sampleCount(2000) },
    )
  })

  it('are not found by bytes that were not captured', () => {
    const short = (time: number, id: number): PcapFrame => {
      const { bytes } = frame(time, ipv4({ id, payload: new Array(100).fill(9) }))
      return { timestampMicros: time, bytes: bytes.subarray(0, 60), wireBytes: bytes.length }
    }
    expect(check([short(0, 1), short(1, 1), short(2, 2)], { dropDuplicates: true }).statuses).toEqual([
      'ok',
      'duplicate',
      'ok',
    ])
  })

  it('are not packets that differ behind the outer headers of a tunnel alone', () => {
    const link = [...ETHERNET.slice(0, 12), 0x86, 0xdd]
    const header = (next: number): number[] => [0x60, 0, 0, 0, 0, 60, next, 64, ...new Array(32).fill(1)]
    const tunnelled = (k: number): number[] => [...header(41), ...header(59), ...new Array(19).fill(0), k]
    const frames = [0, 1, 2, 2].map((k, at) => frame(at, tunnelled(k), link))
    expect(check(frames).counts).toMatchObject({ ipPackets: 4, duplicatePackets: 1 })
  })

  it('are no packets without an IP header', () => {
    const arp = [...ETHERNET.slice(0, 12), 8, 6]
    const frames = [frame(0, new Array(28).fill(0), arp), frame(1, new Array(28).fill(0), arp)]
    expect(check(frames, { dropDuplicates: true })).toMatchObject({
      counts: { ipPackets: 0, droppedDuplicates: 0 },
      statuses: ['arp', 'arp'],
    })
  })

  it('are found among as many other packets as come in the window on a fast link', () => {
    const frames: PcapFrame[] = []
    for (let k = 0; k < 1000; k++) frames.push(frame(k, ipv4({ id: k })))
    for (let k = 0; k < 1000; k++) frames.push(frame(999, ipv4({ id: k })))
    const { duplicatePackets } = check(frames).counts
    expect(duplicatePackets).toBeGreaterThan(980)
  })
})

describe.skipIf(!hasProgram('editcap', 'copies are not compared with it'))(
  'as many copies as editcap -w',
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'oddflow-editcap-'))
    afterAll(() => rmSync(folder, { recursive: true, force: true }))

    it('of equal frames in bursts shorter than the window', () => {
      fc.assert(
        fc.property(
          fc.array(fc.array(fc.nat({ max: 6 }), { minLength: 1, maxLength: 12 }), {
            minLength: 1,
            maxLength: 8,
          }),
          (bursts) => {
            const frames = bursts.flatMap((ids, burst) =>
              ids.map((id, k) => frame(10_000 * burst + 80 * k, ipv4({ id }))),
            )
            const [before, after] = [join(folder, 'before.pcap'), join(folder, 'after.pcap')]
            writeFileSync(before, encodePcap(frames))
            execFileSync('editcap', ['-w', '0.001000', before, after], { stdio: 'ignore' })
            const { droppedDuplicates } = check(frames, { dropDuplicates: true }).counts
            expect(frames.length - droppedDuplicates).toBe(packetsIn(after))
          },
        ),
        { numRuns: 10 },
      )
    })

    function packetsIn(path: string): number {
      const said = execFileSync('capinfos', ['-cM', path], { encoding: 'utf8' })
      return Number(/packets:\s+(\d+)/.exec(said)?.[1])
    }
  },
)

describe('header checksums and hop limits', () => {
  it('are counted, and the packets stay what they are', () => {
    const wrong = ipv4({ id: 3 })
    wrong[11]! ^= 1
    const offloaded = ipv4({ id: 4 })
    offloaded[10] = 0
    offloaded[11] = 0
    const frames = [
      frame(0, ipv4({ id: 1 })),
      frame(1, wrong),
      frame(2, offloaded),
      frame(3, ipv4({ id: 5, ttl: 0 })),
      frame(4, ipv4({ id: 6, ttl: 1 })),
      frame(5, ipv4({ id: 7, ttl: 1, destination: [239, 255, 255, 250] })),
    ]
    expect(check(frames, { dropDuplicates: true })).toEqual({
      counts: {
        ipPackets: 6,
        duplicatePackets: 0,
        droppedDuplicates: 0,
        checkedHeaders: 6,
        wrongChecksums: 2,
        zeroChecksums: 1,
        lastHopPackets: 2,
      },
      statuses: new Array(6).fill('ok'),
    })
  })
})

describe('what is said of them', () => {
  const none: PacketCheckCounts = {
    ipPackets: 1000,
    duplicatePackets: 0,
    droppedDuplicates: 0,
    checkedHeaders: 1000,
    wrongChecksums: 0,
    zeroChecksums: 0,
    lastHopPackets: 0,
  }

  it('is nothing of a capture without any', () => {
    expect(describePacketCheck(none)).toEqual([])
    expect(packetCheckWarnings(none, '--drop-duplicates')).toEqual([])
  })

  it('is a count, and from a hundredth of the packets on a warning with what to do', () => {
    const few = { ...none, duplicatePackets: 9, wrongChecksums: 9, lastHopPackets: 1 }
    expect(describePacketCheck(few)).toHaveLength(3)
    expect(packetCheckWarnings(few, '--drop-duplicates')).toEqual([])
    const many = { ...none, duplicatePackets: 500, wrongChecksums: 10, zeroChecksums: 9 }
    const [copies, checksums] = packetCheckWarnings(many, '--drop-duplicates').map(({ text }) => text)
    expect(copies).toMatch(/^500 of 1000 IP packets \(50\.0 %\) are copies: .*--drop-duplicates$/)
    expect(checksums).toMatch(/^10 of 1000 IPv4 headers \(1\.0 %\) have a wrong checksum: .*offload/)
  })

  it('asks for nothing where copies are dropped', () => {
    const dropped = { ...none, duplicatePackets: 500, droppedDuplicates: 500 }
    expect(packetCheckWarnings(dropped, '--drop-duplicates')).toEqual([])
    expect(describePacketCheck(dropped)[0]).toMatch(/dropped$/)
  })
})

describe.skipIf(sharedMissing)('captures of real networks', () => {
  it('have right checksums where tshark says so', async () => {
    const checker = new PacketCheck()
    const packets = createPacketBatch(2048)
    await readCapture(join(goldenCaptures, 'captures/iot/huebridge_a1.pcap'), (frames) => {
      decodePackets(frames, packets)
      for (let i = 0; i < packets.count; i++) checker.look(frames, packets, i)
    })
    expect(checker.counts.checkedHeaders).toBeGreaterThan(100)
    expect(checker.counts.wrongChecksums).toBe(0)
  })
})
