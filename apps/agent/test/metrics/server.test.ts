/** The server's doors: who is answered while others hold connections, and by which names. */
import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type AgentServer, healthOf, startServer } from '../../src/web/server.js'
import { sampleSnapshot } from '../support/sample-dashboard.js'

let server: AgentServer
const held: Socket[] = []

beforeEach(async () => {
  const metrics = { contentType: 'text/plain', text: async () => 'metrics\n' }
  const listen = { host: '127.0.0.1', port: 0 }
  server = await startServer(listen, metrics, () => healthOf(sampleSnapshot()), ['gateway.lan'])
})
afterEach(async () => {
  for (const socket of held.splice(0)) socket.destroy()
  await server.close()
})

function get(path: string, host?: string, localAddress = '127.0.0.1'): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = host === undefined ? {} : { host }
    request(`http://${server.address}${path}`, { headers, localAddress, agent: false }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (piece: string) => {
        text += piece
      })
      response.on('end', () => resolve(`${response.statusCode} ${text}`))
    })
      .on('error', reject)
      .end()
  })
}

/** Opens connections that send this and nothing more. */
async function hold(count: number, text: string, localAddress: string): Promise<void> {
  const port = Number(server.address.split(':')[1])
  for (let i = 0; i < count; i++) {
    await new Promise<void>((resolve) => {
      const socket = connect({ host: '127.0.0.1', port, localAddress }, resolve)
      socket.on('error', () => undefined)
      held.push(socket)
      socket.write(text)
    })
  }
}

it('makes no thousands of answers for one connection, and answers one request after the other', async () => {
  let made = 0
  const metrics = {
    contentType: 'text/plain',
    text: async () => {
      made++
      return 'metrics\n'
    },
  }
  const another = await startServer({ host: '127.0.0.1', port: 0 }, metrics, () => healthOf(sampleSnapshot()))
  try {
    const one = 'GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n'
    const socket = connect({ host: '127.0.0.1', port: Number(another.address.split(':')[1]) })
    socket.on('error', () => undefined)
    for (let i = 1; i <= 3; i++) {
      socket.write(one)
      await new Promise((resolve) => socket.once('data', resolve))
      expect(made).toBe(i)
    }
    const closed = new Promise((resolve) => socket.once('close', resolve))
    socket.write(one.repeat(5000))
    await closed
    expect(made).toBeLessThan(10)
  } finally {
    await another.close()
  }
})

describe('clients that are slow', () => {
  it.each([
    ['say nothing', ''],
    ['begin a request', 'GET /healthz HTTP/1.1\r\nhost: a\r\nx-slow: '],
    ['begin a body', 'POST /api/devices HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9999\r\n\r\n{'],
  ])('and %s keep nobody from /healthz, from their own address or another', async (_, text) => {
    await hold(24, text, '127.0.0.2')
    for (const from of ['127.0.0.1', '127.0.0.2'])
      expect(await get('/healthz', undefined, from)).toBe('200 well\n')
    // one whose connection was there before is not sent away by those of another address
    await hold(1, '', '127.0.0.1')
    const first = held.at(-1)
    await hold(24, text, '127.0.0.2')
    const answer = new Promise((resolve) => {
      first?.once('data', (bytes: Buffer) => resolve(bytes.toString('latin1')))
      first?.once('close', () => resolve('closed'))
    })
    first?.write('GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n')
    expect(await answer).toMatch(/^HTTP\/1\.1 200 /)
  })
})

it('/metrics answers an address or a name of the machine, and no other name that leads to it', async () => {
  for (const host of ['127.0.0.1:9477', '[::1]', 'localhost', 'oddflow-agent:9477', 'Gateway.lan'])
    expect(await get('/metrics', host), host).toBe('200 metrics\n')
  for (const host of ['evil.example', 'gateway.lan.evil.example', '127.0.0.1.evil.example', 'a b'])
    expect(await get('/metrics', host), host).toMatch(/^4(21|00) /)
})

it('health names what is wrong, and what a receiver refused', () => {
  const snapshot = sampleSnapshot()
  const alerts = { ...snapshot.counters.alerts, setAside: { eve: 0, hub: 2 } }
  const counters = { ...snapshot.counters, alerts }
  expect(healthOf({ ...snapshot, counters })).toEqual({
    isWell: true,
    reasons: ['hub refused 2 alerts; see the log'],
  })
  const droppedAgent = { ...snapshot.counters, droppedAgent: 7 }
  expect(healthOf({ ...snapshot, overloaded: true, counters: droppedAgent })).toEqual({
    isWell: true,
    reasons: ['overloaded: the agent drops packets, 7 in this run'],
  })
  const ill = { ...snapshot, spoolWorks: false, outputs: [{ name: 'hub', works: false }] }
  expect(healthOf(ill)).toEqual({
    isWell: false,
    reasons: ['alerts cannot be delivered to hub', 'alerts cannot be kept in the state folder'],
  })
})
