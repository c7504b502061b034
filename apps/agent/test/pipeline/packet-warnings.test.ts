import { expect, it } from 'vitest'
import { createPacketWarnings } from '../../src/pipeline/conditions.js'

const none = {
  ipPackets: 0,
  duplicatePackets: 0,
  droppedDuplicates: 0,
  checkedHeaders: 0,
  wrongChecksums: 0,
  zeroChecksums: 0,
  lastHopPackets: 0,
}

it('warns of each problem once, by the packets since the last look', () => {
  const counts = { ...none }
  const lines: string[] = []
  const look = createPacketWarnings(counts, (line) => lines.push(line))
  counts.ipPackets = 1_000_000
  counts.checkedHeaders = 1_000_000
  look(1000)
  expect(lines).toEqual([])
  // a mirror port that was set up later: few of all packets, and half of the new ones
  counts.ipPackets += 999
  counts.duplicatePackets = 500
  look(1000)
  expect(lines).toEqual([])
  counts.ipPackets += 1
  look(1000)
  expect(lines).toHaveLength(1)
  expect(lines[0]).toMatch(/^500 of 1000 IP packets \(50\.0 %\) are copies/)
  counts.ipPackets += 1000
  counts.duplicatePackets += 500
  counts.checkedHeaders += 1000
  counts.wrongChecksums = 1000
  counts.zeroChecksums = 1000
  look(1000)
  look(1)
  expect(lines).toHaveLength(2)
  expect(lines[1]).toMatch(/wrong checksum: .*offload/)
})
