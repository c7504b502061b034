/**
 * Warnings of copied packets and wrong checksums, each problem once. Judged are the packets since the last look, so that a
 * mirror port that is set up later is noticed too.
 */
import { type PacketCheckCounts, packetCheckWarnings } from '@oddflow/capture'

/** @returns a look at the counts, if at least `least` packets have come since the last one. */
export function createPacketWarnings(
  counts: Readonly<PacketCheckCounts>,
  warn: (line: string) => void,
): (least: number) => void {
  let last = { ...counts }
  const warned = new Set<string>()
  return (least) => {
    if (counts.ipPackets - last.ipPackets < least) return
    const recent = { ...counts }
    for (const name of Object.keys(recent) as (keyof PacketCheckCounts)[]) recent[name] -= last[name]
    last = { ...counts }
    for (const { problem, text } of packetCheckWarnings(recent, '--drop-duplicates')) {
      if (warned.has(problem)) continue
      warned.add(problem)
      warn(text)
    }
  }
}
