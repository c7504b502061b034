/**
 * The rules once more, in the plainest code: strings for keys, an array for each flow, one flow at a time. Times go up,
 * or back by more than the window in which packets are sorted, and no gap is longer than a minute.
 * Shares nothing with src but the types.
 */
import type { PacketBatch } from '@oddflow/capture'
import type { IatSizeContract } from '@oddflow/core'

export interface ReferenceRecord {
  firstPacketNumber: number
  flowFirstPacketNumber: number
  flowStartMicros: number
  pieceIndex: number
  startMicros: number
  durationMicros: number
  packets: number
  bytes: number
  row: number[] | null
}

interface Seen {
  number: number
  stamp: number
  time: number
  size: number
}

export function referenceRecords(
  batches: readonly PacketBatch[],
  contract: IatSizeContract,
): ReferenceRecord[] {
  const byKey = new Map<string, Seen[]>()
  let latest = Number.NEGATIVE_INFINITY
  let offset = 0
  for (const batch of batches) {
    for (let i = 0; i < batch.count; i++) {
      const stamp = batch.timestampMicros[i]
      // A clock that is set back: nothing of what follows is later or earlier for it.
      if (stamp < latest - 10_000) offset += latest - stamp
      if (!Number.isNaN(stamp)) latest = stamp
      const time = stamp + offset
      if (batch.status[i] !== 0 || Number.isNaN(time) || ![6, 17].includes(batch.protocol[i])) continue
      const ends = [
        `${[...batch.sourceAddress.slice(4 * i, 4 * i + 4)]}:${batch.sourcePort[i]}`,
        `${[...batch.destinationAddress.slice(4 * i, 4 * i + 4)]}:${batch.destinationPort[i]}`,
      ].sort()
      const key = `${batch.ipVersion[i]} ${batch.protocol[i]} ${ends}`
      if (!byKey.has(key)) byKey.set(key, [])
      const size =
        contract.sizeMeasure === 'ip'
          ? batch.ipBytes[i]
          : contract.sizeMeasure === 'payload'
            ? batch.payloadBytes[i]
            : batch.frameBytes[i]
      byKey.get(key)!.push({ number: batch.firstFrame + i, stamp, time, size })
    }
  }
  const records: ReferenceRecord[] = []
  for (const packets of byKey.values()) {
    let flow: Seen[] = []
    for (const packet of packets) {
      const last = flow.at(-1)
      if (last !== undefined && packet.time - last.time > contract.idleTimeoutMicros) {
        records.push(...cut(flow, contract))
        flow = []
      }
      flow.push(packet)
    }
    records.push(...cut(flow, contract))
  }
  return records.sort((x, y) => x.firstPacketNumber - y.firstPacketNumber)
}

function cut(flow: Seen[], contract: IatSizeContract): ReferenceRecord[] {
  const { truncation, activeTimeoutMicros, minimumPackets, packetsPerFlow } = contract
  const pieces: Seen[][] = [[]]
  for (const packet of flow) {
    const piece = pieces.at(-1)!
    const age = piece.length === 0 ? 0 : packet.time - piece[0].time
    const over =
      (truncation.mode === 'split' && age > truncation.durationMicros) ||
      (activeTimeoutMicros !== null && age > activeTimeoutMicros)
    if (over && piece.length >= minimumPackets) pieces.push([packet])
    else piece.push(packet)
  }
  return pieces.map((piece, pieceIndex) => {
    const start = piece[0].time
    const inTime =
      truncation.mode === 'split' ? piece : piece.filter((p) => p.time - start <= truncation.durationMicros)
    const row: number[] = []
    inTime.forEach((p, j) => {
      if (j + 1 < inTime.length) {
        const iat = inTime[j + 1].time - p.time
        row.push(contract.iatUnit === 'seconds' ? iat / 1e6 : iat)
      }
      row.push(p.size)
    })
    while (row.length < 2 * packetsPerFlow - 1) row.push(0)
    row.length = 2 * packetsPerFlow - 1
    return {
      firstPacketNumber: piece[0].number,
      flowFirstPacketNumber: flow[0].number,
      flowStartMicros: flow[0].stamp,
      pieceIndex,
      startMicros: piece[0].stamp,
      durationMicros: piece.at(-1)!.time - start,
      packets: piece.length,
      bytes: piece.reduce((sum, p) => sum + p.size, 0),
      row: inTime.length >= minimumPackets ? row : null,
    }
  })
}
