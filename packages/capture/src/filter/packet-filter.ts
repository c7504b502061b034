/** A predicate over packet i of a batch; it allocates nothing. */
import type { PacketBatch } from '../packet-batch.js'

export type PacketFilter = (packets: PacketBatch, i: number) => boolean
