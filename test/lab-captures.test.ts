/**
 * The captures that the repository carries, held to their labels file: every file is there, unchanged
 * and named, the whole stays small, and each says what is novel in it.
 *
 * The counts in labels.json were taken with capinfos, tcpdump and tshark (tools/traffic-lab/label.py).
 * What can be checked again without them and without this project's own reader is: size, SHA-256, the
 * file's kind by its first bytes and, for classic pcap, packets and wire bytes by a walk of the record
 * headers (draft-ietf-opsawg-pcap, section 5).
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'

interface Capture {
  file: string
  label: 'normal' | 'novel'
  whatHappens: string
  novelWhen?: string
  sha256: string
  sizeBytes: number
  packets: number
  wireBytes: number
  seconds: number
  flows: number
  flowsOfTwoOrMorePackets: number
  novelPackets?: number
  novelFlows?: number
  novelFlowsOfTwoOrMorePackets?: number
}

interface Labels {
  description: string
  devices: { name: string; mac: string; ipv4: string; ipv6: string; character: string }[]
  tools: Record<string, string>
  captures: Capture[]
}

const folder = new URL('./fixtures/lab/', import.meta.url)
const bytesOf = (file: string): Buffer => readFileSync(new URL(file, folder))
const labels = JSON.parse(bytesOf('labels.json').toString()) as Labels
const totalLimitBytes = 3_000_000
const filterWord = /^(host|net|port|src|dst|ether|tcp|udp|and|or|not|[()]|\d+|[0-9a-f:.]+(\/\d+)?)$/

/** Packets and wire bytes of a little-endian microsecond pcap. */
function walkPcap(data: Buffer): { packets: number; wireBytes: number } {
  expect(data.readUInt32LE(0)).toBe(0xa1b2c3d4)
  let packets = 0
  let wireBytes = 0
  let at = 24
  while (at < data.length) {
    const captured = data.readUInt32LE(at + 8)
    const wire = data.readUInt32LE(at + 12)
    expect(captured).toBe(wire) // whole frames: nothing was cut by a snap length
    packets += 1
    wireBytes += wire
    at += 16 + captured
  }
  expect(at).toBe(data.length)
  return { packets, wireBytes }
}

describe('the lab captures', () => {
  it('are exactly the files that labels.json names, under 3 MB in all', () => {
    const files = readdirSync(folder).filter((name) => name !== 'labels.json')
    expect(files.sort()).toEqual(labels.captures.map((capture) => capture.file).sort())
    const total = labels.captures.reduce((sum, capture) => sum + capture.sizeBytes, 0)
    expect(total).toBeLessThan(totalLimitBytes)
  })

  it('come as classic pcap, pcapng and gzip', () => {
    const kinds = labels.captures.map((capture) => capture.file.replace(/^[^.]+\./, ''))
    expect([...new Set(kinds)].sort()).toEqual(['pcap', 'pcap.gz', 'pcapng'])
  })

  it('hold enough normal flows to learn from', () => {
    const normal = labels.captures.filter((capture) => capture.label === 'normal')
    expect(normal.length).toBeGreaterThanOrEqual(4)
    const flows = normal.reduce((sum, capture) => sum + capture.flowsOfTwoOrMorePackets, 0)
    expect(flows).toBeGreaterThanOrEqual(1500)
  })

  it('name the devices and the programs', () => {
    expect(labels.description).not.toBe('')
    expect(labels.devices.length).toBeGreaterThanOrEqual(3)
    for (const device of labels.devices) {
      expect(device.mac).toMatch(/^([0-9a-f]{2}:){5}[0-9a-f]{2}$/)
      expect(device.ipv4).toMatch(/^192\.168\.50\.\d+$/)
      expect(device.ipv6).toMatch(/^fd50::\d+$/)
      expect(device.character).not.toBe('')
    }
    expect(Object.keys(labels.tools)).toContain('tcpdump')
  })
})

describe.each(labels.captures)('$file', (capture) => {
  it('is unchanged', () => {
    const data = bytesOf(capture.file)
    expect(data.length).toBe(capture.sizeBytes)
    expect(createHash('sha256').update(data).digest('hex')).toBe(capture.sha256)
  })

  it('is of the kind its name says, with the packets labels.json says', () => {
    const data = bytesOf(capture.file)
    if (capture.file.endsWith('.pcapng')) {
      expect(data.readUInt32LE(0)).toBe(0x0a0d0d0a)
      return
    }
    const plain = capture.file.endsWith('.gz') ? gunzipSync(data) : data
    const { packets, wireBytes } = walkPcap(plain)
    expect({ packets, wireBytes }).toEqual({
      packets: capture.packets,
      wireBytes: capture.wireBytes,
    })
  })

  it('says what happens in it and, if novel, which packets are', () => {
    expect(capture.whatHappens).not.toBe('')
    expect(capture.file.startsWith(`${capture.label}-`)).toBe(true)
    expect(capture.flowsOfTwoOrMorePackets).toBeLessThanOrEqual(capture.flows)
    if (capture.label === 'normal') {
      expect(capture.novelWhen).toBeUndefined()
      expect(capture.novelPackets).toBeUndefined()
      return
    }
    const words = (capture.novelWhen ?? '').replace(/[()]/g, ' $& ').trim().split(/\s+/)
    for (const word of words) expect(word).toMatch(filterWord)
    expect(capture.novelPackets).toBeGreaterThan(0)
    expect(capture.novelPackets).toBeLessThan(capture.packets)
    expect(capture.novelFlows).toBeLessThan(capture.flows)
    expect(capture.novelFlowsOfTwoOrMorePackets).toBeGreaterThan(10)
  })
})
