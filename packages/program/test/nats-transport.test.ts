/** The check against the protocol's own lines (https://docs.nats.io/reference/reference-protocols/nats-protocol). */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createNatsCheck } from '../src/nats-transport.js'

const noTime = (): number => 0
const bytesOf = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text, 'latin1'))
const message = (payload: string, more = ''): string =>
  `MSG _INBOX.a.1 9 ${payload.length}\r\n${payload}${more}\r\n`
const payload = fc.string({ unit: fc.constantFrom('M', 'H', ' ', '\n', '\r', '7', 'MSG a 1 99999999\r\n') })
const line = fc.oneof(
  fc.constantFrom(
    'INFO {"max_payload":1048576}\r\n',
    '+OK\r\n',
    "-ERR 'Stale Connection'\r\n",
    'PING\r\n',
    'PONG\r\n',
  ),
  payload.map((text) => message(text)),
  payload.map((text) => `HMSG a 1 _R 12 ${12 + text.length} \r\nNATS/1.0\r\n\r\n${text}\r\n`),
  // the client skips what stands behind a message
  payload.map((text) => message(text, 'MSG a 1 99999999 ')),
)

it('lets the lines and messages of a server pass, wherever they are cut', () => {
  fc.assert(
    fc.property(
      fc.array(line, { minLength: 1 }),
      fc.array(fc.integer({ min: 1, max: 30 })),
      (lines, cuts) => {
        const bytes = bytesOf(lines.join(''))
        const check = createNatsCheck(noTime)
        for (let at = 0, i = 0; at < bytes.length; i++) {
          const length = cuts[i] ?? bytes.length
          expect(check(bytes.subarray(at, at + length))).toBeNull()
          at += length
        }
        // at a line's beginning again
        expect(check(bytesOf('msg a 1 1048577\n'))).toMatch(/a message of 1048577 bytes/)
      },
    ),
  )
})

it.each([
  ['a message of 60 MB', 'MSG a 1 60000000\r\n', 'of 60000000 bytes'],
  ['one with headers', 'HMSG a 1 b 10 1048577\r\n', 'of 1048577 bytes'],
  ['a size that is followed by spaces', 'mSg\ta\t1\t1048577 \t\r\r\n', 'of 1048577 bytes'],
  ['a size that is none', 'MSG a 1 -1\r\n', 'does not speak NATS'],
  ['headers that are longer than the message', 'HMSG a 1 b 10 9\r\n', 'does not speak NATS'],
  ['too few words', 'MSG a 1\r\n', 'does not speak NATS'],
  ['too many words', 'MSG a 1 b c 1\r\n', 'does not speak NATS'],
  ['an error without a text', '-ERR \nMSG a 1 1\r\n', 'does not speak NATS'],
  ['an INFO that is no JSON', 'INFO {a}\r\n', 'does not speak NATS'],
  ['half a word', 'PIN\r\n', 'does not speak NATS'],
  ['another word', 'HTTP/1.1 400', 'does not speak NATS'],
  ['a message behind another', `${message('MSG')}MSG a 1 1048577\r\n`, 'of 1048577 bytes'],
  ['a line without end', `INFO ${'x'.repeat(65_532)}`, 'a line of more than 65536 bytes'],
])('refuses %s', (_, sent, why) => {
  expect(createNatsCheck(noTime)(bytesOf(sent))).toContain(why)
  const check = createNatsCheck(noTime)
  const reasons = [...bytesOf(sent)].map((byte) => check(Uint8Array.of(byte)))
  expect(reasons.filter((reason) => reason !== null).join()).toContain(why)
})

it('takes a message and a line of the longest size', () => {
  const check = createNatsCheck(noTime)
  expect(check(bytesOf(`INFO {"a":"${'x'.repeat(65_522)}"}\r\n`))).toBeNull()
  expect(check(bytesOf(`MSG a 1 1048576\r\n${'x'.repeat(1_048_576)}\r\nPING\r\n`))).toBeNull()
})

it('refuses more lines that are no messages than a server has a use for, and counts no messages', () => {
  let millis = 0
  const check = createNatsCheck(() => millis)
  expect(check(bytesOf('PING\r\n'.repeat(1000)))).toBeNull()
  millis = 10_000
  expect(check(bytesOf('PONG\r\n'.repeat(1000)))).toBeNull()
  expect(check(bytesOf(message('a').repeat(5000)))).toBeNull()
  expect(check(bytesOf('INFO {}\r\n'))).toBe(
    'the server sent more than 1000 lines that are no messages within 10 s',
  )
})
