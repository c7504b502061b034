/**
 * A generated capture with the mix of a network's edge, block by block: any number of packets, the same bytes
 * every time.
 *
 * Flows have a heavy-tailed number of packets, and so many are under way at a time; each
 * packet is of one of those, taken at random, ten microseconds after the one before. Six flows in ten are TCP
 * with its handshake and FINs, of the rest nearly all UDP and a few ICMP, which the contract leaves out; a
 * quarter of all is IPv6, a tenth carries a VLAN tag. Frames are whole, of the "IMIX" sizes (7 of 60 to 90
 * bytes, 4 of 570 to 594, 1 of 1,514), 380 bytes on average; payloads are zeros.
 */
import { encodePcapFileHeader } from '@oddflow/capture'
import { createRng } from '@oddflow/core'

const BLOCK_BYTES = 1 << 20
const ICMP = 1
const TCP = 6
const UDP = 17
const ICMPV6 = 58

/** Lengths of so many flows, of `packets` in all: a Pareto tail of index 4/3 upon two packets each. */
function flowLengths(rng, packets, flows) {
  const weights = Array.from({ length: flows }, () => (rng.nextFloat() + 1e-5) ** -0.75)
  const sum = weights.reduce((total, weight) => total + weight, 0)
  const spare = packets - 2 * flows
  const lengths = weights.map((weight) => 2 + Math.floor((spare * weight) / sum))
  lengths[0] += packets - lengths.reduce((total, length) => total + length, 0)
  return lengths
}

function startFlow(rng, number, packets) {
  const kind = rng.nextBelow(100)
  const version = rng.nextBelow(4) === 0 ? 6 : 4
  const protocol = kind < 60 ? TCP : kind < 98 ? UDP : version === 4 ? ICMP : ICMPV6
  return {
    version,
    protocol,
    vlan: rng.nextBelow(10) === 0,
    client: 0x0a000000 + (number >>> 4),
    server: 0xc6336400 + rng.nextBelow(200),
    clientPort: 32_768 + (number & 15) * 1024 + rng.nextBelow(1024),
    serverPort:
      protocol === UDP ? [53, 123, 443, 5353][rng.nextBelow(4)] : [80, 443, 1883, 8883][rng.nextBelow(4)],
    packets,
    sent: 0,
  }
}

function frameBytesOf(rng) {
  const turn = rng.nextBelow(12)
  return turn < 7 ? 60 + rng.nextBelow(31) : turn < 11 ? 570 + rng.nextBelow(25) : 1514
}

function tcpFlags(flow, back) {
  if (flow.sent === 0) return 2
  if (flow.sent === 1) return back ? 18 : 2
  return flow.sent >= flow.packets - 2 ? 17 : 24
}

/** Writes record and frame at `at`; returns where they end. */
function writePacket(view, at, micros, flow, back, wish) {
  const { version, protocol, vlan } = flow
  const ipAt = vlan ? 18 : 14
  const ipHeader = version === 4 ? 20 : 40
  const frameBytes = Math.max(wish, ipAt + ipHeader + 20)
  view.setUint32(at, Math.floor(micros / 1e6), true)
  view.setUint32(at + 4, micros % 1e6, true)
  view.setUint32(at + 8, frameBytes, true)
  view.setUint32(at + 12, frameBytes, true)
  const frame = at + 16
  view.setUint32(frame, 0x02000000)
  view.setUint16(frame + 4, back ? 1 : 2)
  view.setUint32(frame + 6, 0x02000000)
  view.setUint16(frame + 10, back ? 2 : 1)
  if (vlan) view.setUint32(frame + 12, 0x81000064)
  view.setUint16(frame + ipAt - 2, version === 4 ? 0x0800 : 0x86dd)
  const ip = frame + ipAt
  const ipBytes = frameBytes - ipAt
  const [source, destination] = back ? [flow.server, flow.client] : [flow.client, flow.server]
  if (version === 4) {
    view.setUint32(ip, 0x45000000 + ipBytes)
    view.setUint16(ip + 4, flow.sent & 0xffff)
    view.setUint16(ip + 6, 0x4000)
    view.setUint16(ip + 8, 0x4000 + protocol)
    view.setUint32(ip + 12, source)
    view.setUint32(ip + 16, destination)
    writeChecksum(view, ip)
  } else {
    view.setUint32(ip, 0x60000000)
    view.setUint16(ip + 4, ipBytes - 40)
    view.setUint16(ip + 6, (protocol << 8) + 64)
    for (const [place, host] of [
      [8, source],
      [24, destination],
    ]) {
      view.setUint32(ip + place, 0x20010db8)
      view.setUint32(ip + place + 12, host)
    }
  }
  const transport = ip + ipHeader
  if (protocol === ICMP || protocol === ICMPV6) {
    view.setUint8(transport, protocol === ICMP ? (back ? 0 : 8) : back ? 129 : 128)
  } else {
    view.setUint16(transport, back ? flow.serverPort : flow.clientPort)
    view.setUint16(transport + 2, back ? flow.clientPort : flow.serverPort)
    if (protocol === UDP) view.setUint16(transport + 4, ipBytes - ipHeader)
    else {
      view.setUint32(transport + 4, flow.sent)
      view.setUint16(transport + 12, 0x5000 + tcpFlags(flow, back))
      view.setUint16(transport + 14, 0xffff)
    }
  }
  return frame + frameBytes
}

function writeChecksum(view, ip) {
  let sum = 0
  for (let word = 0; word < 20; word += 2) sum += view.getUint16(ip + word)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  view.setUint16(ip + 10, ~sum & 0xffff)
}

/** @param active flows under way at a time. Blocks are the caller's to keep. */
export function* trafficBlocks(packets, flows, active) {
  const rng = createRng(20)
  const lengths = flowLengths(rng, packets, flows)
  let begun = 0
  const underWay = []
  let block = new Uint8Array(BLOCK_BYTES)
  let view = new DataView(block.buffer)
  block.set(encodePcapFileHeader())
  let at = 24
  for (let i = 0; i < packets; i++) {
    while (underWay.length < active && begun < flows) underWay.push(startFlow(rng, begun, lengths[begun++]))
    const turn = rng.nextBelow(underWay.length)
    const flow = underWay[turn]
    const back = flow.sent === 0 ? false : flow.sent === 1 ? true : rng.nextBelow(2) === 1
    at = writePacket(view, at, 1_700_000_000_000_000 + 10 * i, flow, back, frameBytesOf(rng))
    if (++flow.sent === flow.packets) {
      underWay[turn] = underWay[underWay.length - 1]
      underWay.pop()
    }
    if (at + 2048 > BLOCK_BYTES) {
      yield block.subarray(0, at)
      block = new Uint8Array(BLOCK_BYTES)
      view = new DataView(block.buffer)
      at = 0
    }
  }
  yield block.subarray(0, at)
}
