/** 802.11 aggregates: each packet in them is one. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { createCaptureReader, createPacketBatch, decodePackets, encodePcap } from '../src/index.js'
import { cases } from './support/shared.js'

/** Status, ports and captured bytes of each packet. */
function packetsOf(capture: Uint8Array, batchFrames = 2048): number[][] {
  const reader = createCaptureReader({ batchFrames })
  reader.push(capture)
  const found: number[][] = []
  for (let frames = reader.read(); frames !== null; frames = reader.read()) {
    expect(frames.firstFrame).toBe(found.length)
    expect(frames.count).toBeLessThanOrEqual(batchFrames)
    const packets = createPacketBatch(frames.count)
    decodePackets(frames, packets)
    for (let i = 0; i < packets.count; i++) {
      found.push([
        packets.status[i]!,
        packets.sourcePort[i]!,
        packets.destinationPort[i]!,
        packets.ipBytes[i]!,
      ])
    }
  }
  expect(reader.end().packets).toBe(found.length)
  return found
}

/** An LLC header and a UDP packet from this port. */
function datagram(port: number, payload: number): number[] {
  const ip = [0x45, 0, 0, 28 + payload, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]
  const udp = [port >> 8, port & 255, 0, 53, 0, 8 + payload, 0, 0]
  return [0xaa, 0xaa, 3, 0, 0, 0, 8, 0, ...ip, ...udp, ...new Array<number>(payload).fill(7)]
}

function aggregate(ports: readonly number[], isAggregate = true): number[] {
  const mac = [2, 0, 0, 0, 0, 1]
  const header = [0x88, 2, 0, 0, ...mac, ...mac, ...mac, 0, 0, isAggregate ? 0x80 : 0, 0]
  const body: number[] = []
  ports.forEach((port, k) => {
    const bytes = datagram(port, k)
    while (body.length % 4 !== 0) body.push(0)
    body.push(...mac, ...mac, bytes.length >> 8, bytes.length & 255, ...bytes)
  })
  return [...header, ...body]
}

it('gives each packet, in batches of any size', () => {
  const frames = [[1, 2, 3, 4], [5], [6, 7]].map((ports) => ({
    timestampMicros: 1_000_000,
    bytes: Uint8Array.from(aggregate(ports)),
  }))
  const capture = encodePcap(frames, { linkType: 105 })
  const expected = [1, 2, 3, 4, 5, 6, 7].map((port, i) => [0, port, 53, 28 + [0, 1, 2, 3, 0, 0, 1][i]!])
  for (const size of [1, 2, 3, 2048]) expect(packetsOf(capture, size)).toEqual(expected)
})

it('reads of what is cut or padded what is there', () => {
  const whole = aggregate([1, 2])
  const one = { timestampMicros: 0, wireBytes: whole.length }
  for (let cut = 0; cut <= whole.length; cut++) {
    const count = packetsOf(
      encodePcap([{ ...one, bytes: Uint8Array.from(whole.slice(0, cut)) }], { linkType: 105 }),
    ).length
    expect(count).toBeLessThanOrEqual(2)
    if (cut === whole.length) expect(count).toBe(2)
  }
  const padded = {
    timestampMicros: 0,
    bytes: Uint8Array.from([...aggregate([1]), 0, 0, ...new Array<number>(20).fill(0)]),
  }
  expect(packetsOf(encodePcap([padded], { linkType: 105 }))).toHaveLength(1)
})

it('reads the aggregate of the evidence', (context) => {
  const file = join(cases, 'll-rt-amsdu.pcap')
  if (!existsSync(file)) return context.skip(`no ${file}: set ODDFLOW_SHARED`)
  expect(packetsOf(readFileSync(file))).toEqual([
    [0, 40000, 443, 40],
    [0, 443, 40000, 40],
  ])
})
