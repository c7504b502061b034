/** A broker that sends unrequested packets: the connection ends at their first bytes. */

import { type AddressInfo, createServer, type Socket } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/input/clocks.js'
import { createFrameCheck, createMqtt } from '../../src/outputs/mqtt.js'
import { keepingLog } from '../support/keeping-log.js'

const CONNACK = [0x20, 2, 0, 0]
const ANSWERS = [CONNACK, [0x40, 2, 0, 7], [0xd0, 0], [0x90, 3, 0, 1, 1], [0x40, 0x82, 0, 0, 7]]

describe('the check of frames', () => {
  it('lets answers pass, wherever they are cut', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...ANSWERS), { minLength: 1 }),
        fc.array(fc.integer({ min: 1, max: 9 })),
        (answers, cuts) => {
          const bytes = Uint8Array.from(answers.flat())
          const check = createFrameCheck(
            () => false,
            () => true,
          )
          for (let at = 0, i = 0; at < bytes.length; i++) {
            const length = cuts[i] ?? bytes.length
            expect(check(bytes.subarray(at, at + length))).toBeNull()
            at += length
          }
        },
      ),
    )
  })

  it.each([
    ['a message', [...CONNACK, 0x30]],
    ['a message with QoS', [0x32]],
    ['a packet of 256 MB', [0x40, 0xff, 0xff, 0xff, 0x7f]],
    ['a length without end', [0x40, 0x80, 0x80, 0x80, 0x80, 0x80]],
    ['one of 2 kB behind another', [...CONNACK, 0x90, 0x80, 0x10]],
  ])('ends with %s', (_, bytes) => {
    const check = createFrameCheck(
      () => false,
      () => true,
    )
    expect(bytes.map((byte) => check(Uint8Array.of(byte))).filter((why) => why !== null)).not.toEqual([])
  })
})

it('messages pass as long as they are taken, and one that is too long does not', () => {
  let left = 2
  const check = createFrameCheck(
    () => left-- > 0,
    () => true,
  )
  const message = Uint8Array.of(0x32, 7, 0, 1, 97, 0, 7, 123, 125)
  expect([message, message].map((bytes) => check(bytes))).toEqual([null, null])
  expect(check(message)).toMatch(/without a subscription/)
  const taking = createFrameCheck(
    () => true,
    () => true,
  )
  expect(taking(Uint8Array.of(0x32, 0x81, 0x08))).toMatch(/of unexpected length/)
})

it('an answer more than was asked for does not pass', () => {
  let left = 2
  const check = createFrameCheck(
    () => false,
    () => left-- > 0,
  )
  expect(check(Uint8Array.from([...CONNACK, 0xd0, 0]))).toBeNull()
  expect(check(Uint8Array.of(0xd0, 0))).toMatch(/more acknowledgements than/)
})

describe('a broker that sends', () => {
  it.each([
    [
      'messages without end',
      Buffer.concat(Array.from({ length: 2000 }, () => Buffer.from('320500016100'.concat('07'), 'hex'))),
    ],
    ['answers without end', Buffer.alloc(8192, Buffer.from('d000', 'hex'))],
    ['a packet of 268 MB', Buffer.concat([Buffer.from('40ffffff7f', 'hex'), Buffer.alloc(4 << 20)])],
  ])(
    '%s is left',
    async (_, sent) => {
      const left: string[] = []
      let answered = 0
      const server = createServer((socket: Socket) => {
        socket.on('error', () => undefined)
        socket.once('data', () => {
          socket.write(Buffer.concat([Buffer.from(CONNACK), sent]))
          socket.on('data', (bytes) => (answered += bytes.length))
          socket.on('close', () => left.push('closed'))
        })
      })
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      const output = await createMqtt({
        kind: 'mqtt',
        name: 'mqtt',
        url: `mqtt://127.0.0.1:${(server.address() as AddressInfo).port}`,
        log: keepingLog(),
        homeAssistant: false,
        answers: false,
        version: '1.2.3',
        hostname: 'gateway',
        alertFile: '/var/log/eve.json',
        clock: systemClock,
      })
      try {
        await expect.poll(() => left.length, { timeout: 4000 }).toBeGreaterThan(0)
        expect(answered).toBeLessThan(1000)
        await expect(
          output.deliver({ first: 0, lines: [new Uint8Array(2)] } as never, AbortSignal.timeout(5000)),
        ).rejects.toThrow(/the broker sent (a|more)/)
      } finally {
        await output.close()
        server.close()
      }
    },
    20_000,
  )
})
