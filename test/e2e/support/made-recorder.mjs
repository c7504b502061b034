#!/usr/bin/env node
/**
 * A tcpdump that records nothing: it says what tcpdump says, and writes a packet every tenth of a second, stamped with
 * the time plus what the file `clock` of the folder MADE_RECORDER says, in milliseconds. The device 02:00:00:00:00:02,
 * 192.168.0.1, has a new flow every FLOW_PACKETS. Where there is a file `gone`, the interface is gone; where there is `silent`,
 * no packet comes.
 */
import { existsSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'

const folder = process.env.MADE_RECORDER
const say = (text) => writeSync(2, `${text}\n`)
const isGone = () => existsSync(join(folder, 'gone'))
if (isGone()) {
  say('tcpdump: made0: No such device exists (No such device exists)')
  process.exit(1)
}
const header = Buffer.alloc(24)
header.writeUInt32LE(0xa1b2c3d4, 0)
header.writeUInt16LE(2, 4)
header.writeUInt16LE(4, 6)
header.writeUInt32LE(65_535, 16)
header.writeUInt32LE(1, 20)
process.stdout.write(header)
say('tcpdump: listening on made0, link-type EN10MB (Ethernet), snapshot length 2048 bytes')

const frame = Buffer.alloc(60)
frame.set([
  2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0, 192, 168, 0, 1,
])
frame.set([192, 0, 2, 2, 0, 0, 0x16, 0x33, 0, 26], 30)
const flowPackets = Number(process.env.FLOW_PACKETS ?? 1e9)
let captured = 0
setInterval(() => {
  if (isGone()) {
    say('tcpdump: pcap_loop: The interface disappeared')
    process.exit(1)
  }
  if (existsSync(join(folder, 'silent'))) return
  const clock = join(folder, 'clock')
  const millis = Date.now() + (existsSync(clock) ? Number(readFileSync(clock, 'utf8')) : 0)
  frame.writeUInt16BE(20_000 + Math.floor(captured / flowPackets), 34)
  const record = Buffer.alloc(16)
  record.writeUInt32LE(Math.floor(millis / 1000), 0)
  record.writeUInt32LE(1000 * Math.floor(millis % 1000), 4)
  record.writeUInt32LE(frame.length, 8)
  record.writeUInt32LE(frame.length, 12)
  process.stdout.write(Buffer.concat([record, frame]))
  captured++
}, 100)
const counts = 'N packets captured, N packets received by filter, 0 packets dropped by kernel'
process.on('SIGUSR1', () => say(`tcpdump: ${counts.replaceAll('N', String(captured))}`))
process.on('SIGTERM', () => {
  say(`${captured} packets captured\n${captured} packets received by filter\n0 packets dropped by kernel`)
  process.exit(0)
})
