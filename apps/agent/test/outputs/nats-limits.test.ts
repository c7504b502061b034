/** A server that sends without end: the agent closes the connection early, logs the reason, and reconnects. */
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { NodeTransport } from '@nats-io/transport-node/lib/node_transport.js'
import { limitNatsTransport } from '@oddflow/program'
import { expect, it } from 'vitest'
import { createSystemClock } from '../../src/input/clocks.js'
import { createNats } from '../../src/outputs/nats.js'
import { keepingLog } from '../support/keeping-log.js'

const INFO = 'INFO {"server_id":"A","version":"2.10.0","proto":1,"max_payload":1048576,"headers":true}\r\n'
const FILL = Buffer.alloc(65_536, 'x')
/** Buffers of the kernel on both ends, and the longest message. */
const MOST_BYTES = 16_000_000

/** Sends `first`, and after the client's PING a PONG and `then`; where either is endless, filling goes on until the close. */
async function hostileServer(first: string, then: string | null) {
  /** Of each connection that was closed: bytes that the client's kernel or the client took. */
  const taken: number[] = []
  const server = createServer((socket: Socket) => {
    const fill = (): void => {
      while (!socket.destroyed && socket.write(FILL));
    }
    socket.on('error', () => undefined)
    socket.on('close', () => taken.push(socket.bytesWritten))
    socket.write(first)
    if (then === null) {
      socket.on('drain', fill)
      fill()
      return
    }
    socket.on('data', (bytes) => {
      if (!bytes.includes('PING')) return
      socket.write(`PONG\r\n${then}`)
      socket.on('drain', fill)
      fill()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { server, taken, url: `nats://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

it.each([
  ['an INFO without end', 'INFO {"server_id":"', null, /no INFO within 65536 bytes/],
  ['a second INFO without end', INFO, 'INFO {"server_id":"', /a line of more than 65536 bytes/],
  ['a line of a message without end', INFO, 'MSG _INBOX.', /a line of more than 65536 bytes/],
  ['an error without end', INFO, "-ERR '", /a line of more than 65536 bytes/],
  ['a message of 60 MB', INFO, 'MSG _INBOX.kitchen.1 1 60000000\r\n', /a message of 60000000 bytes/],
  // the client's parser fails, its reading ends, and its socket goes on gathering
  ['does not speak NATS', INFO, 'BOO', /does not speak NATS/],
  ['an INFO whose version is no text', INFO, 'INFO {"version":1}\r\n+OK', null],
])(
  '%s',
  async (_, first, then, reason) => {
    const { server, taken, url } = await hostileServer(first, then)
    const log = keepingLog()
    const output = await createNats(
      {
        kind: 'nats',
        name: 'fleet',
        url,
        gateway: 'kitchen',
        models: false,
      },
      { version: '0.0.0', hostname: 'x', alertFile: 'eve.json', clock: createSystemClock(0.1), log },
    )
    try {
      const line = new TextEncoder().encode('{"oddflow":{"id":"a"}}')
      const attempt = output.deliver({ first: 0, lines: [line] }, AbortSignal.timeout(9000))
      await expect(attempt).rejects.toThrow(reason ?? /oddflow\.gateway\.kitchen\.event/)
      await expect.poll(() => taken.length, { timeout: 9000 }).toBeGreaterThan(0)
      expect(Math.max(...taken)).toBeLessThan(MOST_BYTES)
      if (reason !== null) expect(log.lines[0]).toMatch(/the connection was closed \(1 so far\)/)
    } finally {
      await output.close()
      server.close()
    }
  },
  30_000,
)

it('a server that says nothing has no open connection after the attempt', async () => {
  let open = 0
  const server = createServer((socket) => {
    open++
    socket.on('error', () => undefined)
    socket.on('close', () => open--)
    socket.resume()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const transport = limitNatsTransport(new NodeTransport(), () => performance.now())
  void transport.connect({ hostname: '127.0.0.1', port, tlsName: '' }, {}).catch(() => undefined)
  await expect.poll(() => open).toBe(1)
  await transport.close()
  await expect.poll(() => open).toBe(0)
  server.close()
})
