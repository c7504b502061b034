/**
 * Idle-gap rules, those of the paper's authors' code: how a collected directional flow becomes pieces.
 *
 * A piece ends when the next packet comes more than the duration after the reference: the previous packet's
 * time, but for the first packet of a piece other than the flow's first, a time just before it:
 * start + floor((t − start) / duration) · duration, start being that of the piece before. Once a flow was cut,
 * its last piece makes no row, and no piece of fewer than the minimum of packets does. Times are floats of
 * seconds since 1970 and the arithmetic is that of Python, operation by operation, so that rows are equal to
 * the bit to the authors'.
 */
import type { CollectedFlows } from './collected-flows.js'
import { floorDivide } from './floor-divide.js'
import { END_REASONS, type EndReason } from './flow-record.js'

export interface IdleGapPiece {
  flow: number
  /** First packet, and the one after the last, in the flows' columns. */
  first: number
  end: number
  pieceIndex: number
  /** The last piece of a flow that was cut. */
  last: boolean
  reason: EndReason
}

/** Calls `onPiece` for every piece, flow by flow; the object is used again. */
export function cutAtIdleGaps(
  flows: CollectedFlows,
  durationSeconds: number,
  onPiece: (piece: IdleGapPiece) => void,
): void {
  const { packetMicros, packetOffset } = flows
  const piece: IdleGapPiece = { flow: 0, first: 0, end: 0, pieceIndex: 0, last: false, reason: 'window' }
  for (let flow = 0; flow < flows.count; flow++) {
    const end = packetOffset[flow + 1]
    piece.flow = flow
    piece.first = packetOffset[flow]
    piece.pieceIndex = 0
    piece.last = false
    piece.reason = 'window'
    let start = packetMicros[piece.first] / 1_000_000
    let reference = start
    for (let i = piece.first + 1; i < end; i++) {
      const time = packetMicros[i] / 1_000_000
      if (time - reference > durationSeconds) {
        piece.end = i
        onPiece(piece)
        piece.first = i
        piece.pieceIndex++
        start += floorDivide(time - start, durationSeconds) * durationSeconds
        reference = start
      } else reference = time
    }
    piece.end = end
    piece.last = piece.pieceIndex > 0
    piece.reason = END_REASONS[flows.endReason[flow]]
    onPiece(piece)
  }
}
