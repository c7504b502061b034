/**
 * connectionState: Zeek's conn_state of a record, as far as TCP flags and directions tell it.
 *
 * From the flags that each end sent at any time in the record, not their order: so a SYN after a RST on reused
 * ports counts as one connection, as the record does. A later piece of a cut flow has no SYN and is OTH. UDP
 * has S0 where one end spoke alone, else SF; all other transports are OTH.
 *
 * A capture may lack the SYN or the SYN-ACK. After a SYN, an acknowledgement by both ends, or data or a FIN of the
 * responder, shows an established connection. An attempt without an answer (S0, SH, RSTOS0) is one of which the
 * responder sent nothing. A responder alone (backscatter, a tap of one direction) shows no attempt.
 */
import { TCP, UDP } from '../flow-protocols.js'
import type { FlowRecord } from '../flow-record.js'

export type ConnectionState =
  | 'S0'
  | 'S1'
  | 'SF'
  | 'REJ'
  | 'S2'
  | 'S3'
  | 'RSTO'
  | 'RSTR'
  | 'RSTOS0'
  | 'RSTRH'
  | 'SH'
  | 'SHR'
  | 'OTH'

const FIN = 1
const SYN = 2
const RST = 4
const PSH = 8
const ACK = 16

export function connectionState(
  record: Pick<FlowRecord, 'protocol' | 'responderPackets' | 'initiatorTcpFlags' | 'responderTcpFlags'>,
): ConnectionState {
  if (record.protocol === UDP) return record.responderPackets === 0 ? 'S0' : 'SF'
  if (record.protocol !== TCP) return 'OTH'
  const initiator = record.initiatorTcpFlags
  const responder = record.responderTcpFlags
  const opened = (initiator & SYN) !== 0
  const accepted = (responder & SYN) !== 0
  const acknowledged = (initiator & responder & ACK) !== 0
  const answered = accepted || acknowledged || (responder & (FIN | PSH)) !== 0
  if (opened && answered) {
    if ((initiator & RST) !== 0) return 'RSTO'
    if ((responder & RST) !== 0) return 'RSTR'
    if ((initiator & responder & FIN) !== 0) return 'SF'
    if ((initiator & FIN) !== 0) return 'S2'
    return (responder & FIN) !== 0 ? 'S3' : 'S1'
  }
  if (opened) {
    if ((responder & RST) !== 0) return 'REJ'
    if (record.responderPackets > 0) return 'OTH'
    if ((initiator & RST) !== 0) return 'RSTOS0'
    if ((initiator & FIN) !== 0) return 'SH'
    // It acknowledged something, so there was an answer, which is not in the capture.
    return (initiator & ACK) === 0 ? 'S0' : 'OTH'
  }
  if (accepted) {
    if ((responder & RST) !== 0) return 'RSTRH'
    if ((initiator & responder & FIN) !== 0) return 'SF'
    if ((responder & FIN) !== 0) return 'SHR'
    if (acknowledged && (initiator & RST) !== 0) return 'RSTO'
    if (acknowledged && (initiator & FIN) !== 0) return 'S2'
  }
  return 'OTH'
}
