/** Messages of RFC 5424 as a server of this machine receives them. */
import { spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { rmSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { createServer as createTlsServer } from 'node:tls'
import { describe, expect, it } from 'vitest'
import { encodeEve } from '../../src/alerts/eve.js'
import { startDelivery } from '../../src/outputs/delivery.js'
import { createSyslog, type SyslogSettings, syslogMessage } from '../../src/outputs/syslog.js'
import { createMemoryLog } from '../../src/spool/alert-log.js'
import { temporaryFolder } from '../support/folder.js'
import { hastyClock } from '../support/hasty-clock.js'
import { hasProgram, makeCertificate } from '../support/programs.js'
import { NO_EXPLANATION, sampleAlert } from '../support/sample-alert.js'
import { incidentLine } from '../support/sample-incident.js'

const never = new AbortController().signal
const lines = Array.from({ length: 5 }, () => encodeEve(sampleAlert(), 'eth0', NO_EXPLANATION))
const settings = (changes: Partial<SyslogSettings>): SyslogSettings => ({
  kind: 'syslog',
  name: 'syslog',
  protocol: 'udp',
  host: '127.0.0.1',
  port: 514,
  socket: '/dev/log',
  text: 'eve',
  facility: 'daemon',
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
  for (const [facility, priority] of [
    ['daemon', 28],
    ['local0', 132],
  ] as const) {
    check(
      new TextDecoder().decode(syslogMessage(lines[0], settings({ facility }))?.bytes),
      lines[0],
      priority,
    )
  }
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

  it('without a receiver is no failure, because UDP has no answer', async () => {
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

/** A receiver of this machine, which does with each connection what `serve` does. */
async function receiving(
  serve: (socket: Socket, connection: number) => void,
  work: (port: number) => Promise<void>,
): Promise<void> {
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    serve(socket, sockets.push(socket) - 1)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    await work((server.address() as AddressInfo).port)
  } finally {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  }
}

describe('over TCP', () => {
  it('is framed by lengths', async () => {
    let bytes = Buffer.alloc(0)
    const gather = (socket: Socket): unknown =>
      socket.on('data', (piece: Buffer) => {
        bytes = Buffer.concat([bytes, piece])
      })
    await receiving(gather, async (port) => {
      const output = createSyslog(settings({ protocol: 'tcp', port }))
      await output.deliver({ first: 0, lines }, never)
      for (const [i, message] of unframe(bytes).entries()) check(message, lines[i], 28)
      expect(unframe(bytes)).toHaveLength(lines.length)
      await output.close()
    })
  })

  /** What a receiver has read, whole messages alone: what its connection still held is lost with it. */
  it.each<[string, (socket: Socket, connection: number, take: (text: string) => void) => void]>([
    [
      'closes each second connection before it reads',
      (socket, connection, take) => {
        if (connection % 2 === 0) socket.destroy()
        else socket.on('data', (piece) => take(piece.toString('latin1')))
      },
    ],
    [
      'closes in order after a few messages, and forgets the rest',
      (socket, connection, take) => {
        const limit = connection % 3 === 2 ? 1e9 : 2000
        let taken = 0
        socket.on('data', (piece) => {
          if (taken > limit) return
          take(piece.toString('latin1', 0, limit))
          taken += piece.length
          if (taken > limit) socket.end()
        })
      },
    ],
    [
      'resets the connection in the midst',
      (socket, connection, take) => {
        socket.on('data', (piece) => {
          if (connection % 2 === 0) socket.resetAndDestroy()
          else take(piece.toString('latin1'))
        })
      },
    ],
    [
      'takes one message a connection',
      (socket, _, take) => {
        let text = ''
        socket.on('data', (piece) => {
          text += piece.toString('latin1')
          const [length = '', rest = ''] = text.split(/ (.*)/s)
          if (rest.length < Number(length) || socket.writableEnded) return
          take(text.slice(0, length.length + 1 + Number(length)))
          socket.end()
        })
      },
    ],
  ])('a receiver that %s has got what counts as delivered', async (_, serve) => {
    const texts = new Map<number, string>()
    await receiving(
      (socket, connection) =>
        serve(socket, connection, (text) => texts.set(connection, (texts.get(connection) ?? '') + text)),
      async (port) => {
        const log = createMemoryLog({ maximumBytes: 1_000_000 })
        const delivery = await startDelivery({
          log,
          output: createSyslog(settings({ protocol: 'tcp', port })),
          clock: hastyClock,
        })
        const alerts = Array.from({ length: 20 }, () => sampleAlert())
        for (const alert of alerts) log.append(encodeEve(alert, 'eth0', NO_EXPLANATION))
        await delivery.drained(never)
        await delivery.stop()
        const got = new Set<string>()
        for (const text of texts.values())
          for (const message of unframe(Buffer.from(text, 'latin1'))) {
            const id = /"id":"(\d{32})"/.exec(message)?.[1]
            if (message.endsWith('}') && id !== undefined) got.add(id)
          }
        expect(alerts.filter(({ id }) => !got.has(id))).toEqual([])
        expect(delivery.delivered).toBe(20)
      },
    )
  })

  it('a receiver that never closes the connection has confirmed nothing', async () => {
    const stopped = new AbortController()
    await receiving(
      () => undefined,
      async (port) => {
        const output = createSyslog(settings({ protocol: 'tcp', port }))
        const delivered = output.deliver({ first: 0, lines }, stopped.signal).then(() => 'delivered')
        setTimeout(() => stopped.abort(), 300)
        await expect(delivered).rejects.toThrow('stopped')
      },
    )
  })

  it('without a receiver is a failure, and ends with the agent', async () => {
    const output = createSyslog(settings({ protocol: 'tcp', port: 9 }))
    await expect(output.deliver({ first: 0, lines }, never)).rejects.toThrow(/ECONNREFUSED/)
    const stopped = new AbortController()
    stopped.abort()
    await expect(output.deliver({ first: 0, lines }, stopped.signal)).rejects.toThrow()
    await output.close()
  })
})

describe('over TLS', () => {
  const folder = temporaryFolder()

  it('is framed by lengths, from a server whose certificate is trusted, and no other', async (context) => {
    if (!hasProgram('openssl')) context.skip('openssl is not installed')
    let bytes = Buffer.alloc(0)
    const server = createTlsServer(makeCertificate(folder), (socket) => {
      socket.on('error', () => undefined)
      socket.on('data', (piece: Buffer) => {
        bytes = Buffer.concat([bytes, piece])
      })
    })
    server.on('tlsClientError', () => undefined)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    try {
      const output = createSyslog(settings({ protocol: 'tls', port, caFile: join(folder, 'cert.pem') }))
      expect(await output.deliver({ first: 0, lines }, never)).toBe('read to the end by the receiver')
      for (const [i, message] of unframe(bytes).entries()) check(message, lines[i], 28)
      expect(unframe(bytes)).toHaveLength(lines.length)
      const untrusting = createSyslog(settings({ protocol: 'tls', port }))
      await expect(untrusting.deliver({ first: 0, lines }, never)).rejects.toThrow(/certificate/)
    } finally {
      server.close()
    }
  })
})

describe('the log daemon of this machine', () => {
  const folder = temporaryFolder()

  /** A socket of datagrams as /dev/log, by Python; gives what came when `work` has ended. */
  async function daemon(work: (socket: string) => Promise<void>): Promise<string[]> {
    const path = join(folder, 'log')
    const child = spawn('python3', [
      '-c',
      `import socket,sys
s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print("ready",flush=True)
while True:
    print(s.recv(65536).decode().rstrip("\\x00"),flush=True)`,
      path,
    ])
    let said = ''
    child.stdout.setEncoding('utf8').on('data', (piece: string) => {
      said += piece
    })
    await expect.poll(() => said).toContain('ready')
    try {
      await work(path)
      await expect.poll(() => said.trim().split('\n').length).toBe(5)
    } finally {
      child.kill()
      rmSync(path)
    }
    return said.trim().split('\n').slice(1)
  }

  it('gets each incident as one line for people, with its level', async (context) => {
    if (!hasProgram('python3') || !hasProgram('logger')) context.skip('python3 and logger are not installed')
    const got = await daemon(async (socket) => {
      const output = createSyslog(settings({ protocol: 'local', host: undefined, socket, text: 'sentence' }))
      const answer = await output.deliver(
        {
          first: 0,
          lines: [
            lines[0],
            incidentLine(),
            incidentLine({ level: 'high', summary: 'two\nlines' }),
            incidentLine({}, 'over'),
          ],
        },
        never,
      )
      expect(answer).toBe('taken by the log daemon')
      await output.close()
    })
    const texts = got.map((line) => line.replace(/^(<\d+>).*?oddflow-agent/, '$1'))
    const advice = 'What to do: Find the scanning device. If you did not start the scan, disconnect it.'
    expect(texts.sort()).toEqual([
      `<27>: Camera (192.0.2.23): scan (high): two lines ${advice} [incident cb12ab34]`,
      '<28>: 192.0.2.10: unusual flow: unlike normal flows',
      `<28>: Camera (192.0.2.23): scan (medium): Camera (192.0.2.23) was contacted on 16 ports in 1 s by 192.0.2.66. ${advice} [incident cb12ab34]`,
      '<29>: Camera (192.0.2.23): scan is over (medium): Camera (192.0.2.23) was contacted on 16 ports in 1 s by 192.0.2.66. [incident cb12ab34]',
    ])
  })

  it('that is not there is a failure', async () => {
    const output = createSyslog(
      settings({ protocol: 'local', host: undefined, socket: join(folder, 'none') }),
    )
    await expect(output.deliver({ first: 0, lines }, never)).rejects.toThrow(
      /none: there is no log daemon's socket/,
    )
  })
})

it('a sentence goes over the network too, where that is asked for', () => {
  const message = syslogMessage(incidentLine({ level: 'high' }), settings({ text: 'sentence' }))
  expect(new TextDecoder().decode(message?.bytes)).toMatch(
    /^<27>1 2023-11-14T22:13:32\.000000Z \S+ oddflow-agent \d+ incident - Camera \(192\.0\.2\.23\): scan \(high\): /,
  )
})
