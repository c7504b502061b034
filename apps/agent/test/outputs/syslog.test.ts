/** Messages of RFC 5424 as a server of this machine receives them. */
import { createSocket } from 'node:dgram'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import { encodeEve } from '../../src/alerts/eve.js'
import { startDelivery } from '../../src/outputs/delivery.js'
import { createSyslog, syslogMessage } from '../../src/outputs/syslog.js'
import type { SyslogSettings } from '../../src/settings.js'
import { createMemoryLog } from '../../src/spool/memory-log.js'
import { hastyClock } from '../support/hasty-clock.js'
import { NO_EXPLANATION, sampleAlert } from '../support/sample-alert.js'

const never = new AbortController().signal
const lines = Array.from({ length: 5 }, () => encodeEve(sampleAlert(), 'eth0', NO_EXPLANATION))
const settings = (changes: Partial<SyslogSettings>): SyslogSettings => ({
  kind: 'syslog',
  name: 'syslog',
  protocol: 'udp',
  host: '127.0.0.1',
  port: 514,
  facility: 3,
  ...changes,
})

/** RFC 5424, section 6: the header, no structured data, the text. */
const MESSAGE =
  /^<(\d{1,3})>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,6}Z) ([\x21-\x7e]{1,255}) oddflow-agent (\d+) ([\x21-\x7e]{1,32}) - (.*)$/

function check(message: string, line: Uint8Array, priority: number): void {
  const [, pri, time, , pid, id, text] = MESSAGE.exec(message) ?? []
  expect(Number(pri)).toBe(priority)
  expect(time).toBe('2023-11-14T22:13:20.250001Z')
  expect(Number(pid)).toBe(process.pid)
  expect(id).toBe('score')
  expect(text).toBe(new TextDecoder().decode(line))
}

it('a message has facility and severity, the time of the alert and the event', () => {
  check(new TextDecoder().decode(syslogMessage(lines[0], 3)), lines[0], 28)
  check(new TextDecoder().decode(syslogMessage(lines[0], 16)), lines[0], 132)
})

describe('over UDP', () => {
  it('is a datagram a message', async () => {
    const socket = createSocket('udp4')
    const got: string[] = []
    const all = new Promise<void>((resolve) => {
      socket.on('message', (bytes) => {
        if (got.push(bytes.toString()) === lines.length) resolve()
      })
    })
    await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve))
    const output = createSyslog(settings({ port: socket.address().port }))
    await output.deliver({ first: 0, lines }, never)
    await all
    await output.close()
    socket.close()
    for (const [i, message] of got.entries()) check(message, lines[i], 28)
  })

  it('to nobody is no failure: it has no answer', async () => {
    const output = createSyslog(settings({ port: 9 }))
    for (let i = 0; i < 3; i++) await output.deliver({ first: 0, lines }, never)
    await output.close()
  })
})

/** What octet counting frames. */
function unframe(bytes: Buffer): string[] {
  const messages: string[] = []
  for (let at = 0; at < bytes.length; ) {
    const space = bytes.indexOf(0x20, at)
    const length = Number(bytes.toString('latin1', at, space))
    messages.push(bytes.toString('utf8', space + 1, space + 1 + length))
    at = space + 1 + length
  }
  return messages
}

describe('over TCP', () => {
  it('is framed by lengths, and connects anew after a break', async () => {
    const sockets: Socket[] = []
    let bytes = Buffer.alloc(0)
    const server = createServer((socket) => {
      sockets.push(socket)
      socket.on('error', () => undefined)
      socket.on('data', (piece: Buffer) => {
        bytes = Buffer.concat([bytes, piece])
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const log = createMemoryLog({ maximumBytes: 1_000_000 })
    const delivery = await startDelivery({
      log,
      output: createSyslog(settings({ protocol: 'tcp', port })),
      clock: hastyClock,
    })
    const arrived = async (count: number): Promise<void> => {
      while (unframe(bytes).length < count) await new Promise((resolve) => setTimeout(resolve, 5))
    }
    for (const line of lines) log.append(line)
    await delivery.drained(never)
    await arrived(lines.length)
    for (const [i, message] of unframe(bytes).entries()) check(message, lines[i], 28)
    bytes = Buffer.alloc(0)
    for (const socket of sockets) socket.destroy()
    // the break is noticed before the next message
    await new Promise((resolve) => setTimeout(resolve, 50))
    for (const line of lines) log.append(line)
    await delivery.drained(never)
    await arrived(lines.length)
    expect(sockets).toHaveLength(2)
    await delivery.stop()
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })

  it('to nobody is a failure, and ends with the agent', async () => {
    const output = createSyslog(settings({ protocol: 'tcp', port: 9 }))
    await expect(output.deliver({ first: 0, lines }, never)).rejects.toThrow(/ECONNREFUSED/)
    const stopped = new AbortController()
    stopped.abort()
    await expect(output.deliver({ first: 0, lines }, stopped.signal)).rejects.toThrow()
    await output.close()
  })
})
