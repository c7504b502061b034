import { formatMac } from '@oddflow/capture'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  cleanName,
  createNameBook,
  readDhcpName,
  readDhcpv6Name,
  readMdnsName,
} from '../../src/devices/names.js'

const text = (value: string): number[] => [...new TextEncoder().encode(value)]
const label = (value: string): number[] => [text(value).length, ...text(value)]
const name = (...labels: string[]): number[] => [...labels.flatMap(label), 0]
const word = (value: number): number[] => [value >> 8, value & 255]
const MAC = [2, 0, 0x5e, 0x10, 0, 1]

function dhcp(options: number[]): Uint8Array {
  const bytes = new Uint8Array(240 + options.length)
  bytes.set([1, 1, 6])
  bytes.set(MAC, 28)
  bytes.set([0x63, 0x82, 0x53, 0x63], 236)
  bytes.set(options, 240)
  return bytes
}
const option = (code: number, value: number[]): number[] => [code, value.length, ...value]
const dhcpName = (options: number[]): string | null => {
  const bytes = dhcp(options)
  return readDhcpName(bytes, 0, bytes.length)?.name ?? null
}

describe('DHCP', () => {
  it('has the host name, else the first label of the qualified one', () => {
    expect(dhcpName([...option(53, [1]), ...option(12, text('hall-lamp')), 255])).toBe('hall-lamp')
    expect(dhcpName([0, 0, ...option(12, text('lamp\0'))])).toBe('lamp')
    expect(dhcpName(option(81, [4, 0, 0, ...name('cam', 'example', 'org')]))).toBe('cam')
    expect(dhcpName(option(81, [4, 0, 0, ...label('cam')]))).toBe('cam')
    expect(dhcpName(option(81, [0, 0, 0, ...text('cam.example')]))).toBe('cam')
    expect(dhcpName([...option(81, [0, 0, 0, ...text('cam')]), ...option(12, text('door'))])).toBe('door')
    const bytes = dhcp(option(12, text('x')))
    expect(formatMac(readDhcpName(bytes, 0, bytes.length)?.mac ?? new Uint8Array(6), 0)).toBe(
      '02:00:5e:10:00:01',
    )
  })

  it('has none in answers, other links, options that are cut, and names that are none', () => {
    const answer = dhcp(option(12, text('x')))
    answer[0] = 2
    expect(readDhcpName(answer, 0, answer.length)).toBe(null)
    for (const options of [
      [12, 9, 65],
      [12],
      [255, ...option(12, text('x'))],
      option(12, [0xff, 0xfe]),
      [],
    ]) {
      expect(dhcpName(options)).toBe(null)
    }
  })
})

describe('DHCPv6', () => {
  const message = (type: number, options: number[]): string | null => {
    const bytes = Uint8Array.from([type, 1, 2, 3, ...options])
    return readDhcpv6Name(bytes, 0, bytes.length)
  }
  const fqdn = (value: number[]): number[] => [...word(39), ...word(value.length), ...value]

  it('has the first label of a client, whole name or partial', () => {
    expect(message(1, [...word(1), ...word(2), 0, 0, ...fqdn([0, ...name('cam', 'lan')])])).toBe('cam')
    expect(message(3, fqdn([1, ...label('cam')]))).toBe('cam')
    expect(message(7, fqdn([0, ...name('server')]))).toBe(null)
    expect(message(1, [...word(39), ...word(99), 0, 1])).toBe(null)
  })
})

describe('multicast DNS', () => {
  const source = Uint32Array.of(0, 0, 0, 0xc0a80005)
  const record = (owner: number[], type: number, value: number[]): number[] => [
    ...owner,
    ...word(type),
    0x80,
    1,
    0,
    0,
    0,
    120,
    ...word(value.length),
    ...value,
  ]
  const response = (records: number[][], flags = 0x84): Uint8Array =>
    Uint8Array.from([0, 0, flags, 0, 0, 0, ...word(records.length), 0, 0, 0, 0, ...records.flat()])
  const read = (bytes: Uint8Array) => readMdnsName(bytes, 0, bytes.length, source, 4)

  it('has the host that the address is of, and what a service calls itself', () => {
    const bytes = response([
      record(name('_http', '_tcp', 'local'), 12, name('Hall Lamp', '_http', '_tcp', 'local')),
      record(name('Hall Lamp', '_http', '_tcp', 'local'), 33, [
        0,
        0,
        0,
        0,
        0,
        80,
        ...name('lamp-5e10', 'local'),
      ]),
      record(name('lamp-5e10', 'local'), 1, [192, 168, 0, 5]),
    ])
    expect(read(bytes)).toEqual({ host: 'lamp-5e10', instance: 'Hall Lamp' })
  })

  it('follows pointers to what came before', () => {
    // the owner of the first record begins at 12; "local" of it at 12 + 1 + 4
    const bytes = response([record(name('lamp', 'local'), 1, [192, 168, 0, 5]), record([0xc0, 12], 47, [])])
    expect(read(bytes)).toEqual({ host: 'lamp', instance: null })
    const pointing = response([record([...label('a'), 0xc0, 12], 1, [192, 168, 0, 5])])
    expect(read(pointing)).toBe(null)
  })

  it('has nothing of a response about another address, of queries, and of other zones', () => {
    expect(read(response([record(name('other', 'local'), 1, [192, 168, 0, 6])]))).toBe(null)
    expect(read(response([record(name('lamp', 'local'), 1, [192, 168, 0, 5])], 0))).toBe(null)
    expect(read(response([record(name('lamp', 'example'), 1, [192, 168, 0, 5])]))).toBe(null)
    expect(
      read(
        response([record(name('_services', '_dns-sd', '_udp', 'local'), 12, name('_http', '_tcp', 'local'))]),
      ),
    ).toBe(null)
  })
})

describe('whatever comes', () => {
  const bytes = fc.uint8Array({ maxLength: 700 })
  const source = new Uint32Array(4)

  it('is no fault, and what it names can be shown', () => {
    fc.assert(
      fc.property(bytes, fc.nat(40), fc.constantFrom(1, 2, 3, 0), (noise, at, kind) => {
        const message = kind === 0 ? dhcp([...noise]) : noise
        if (kind === 3 && message.length > 12) message.set([0, 0, 0x84, 0, 0, 0, 0, 9])
        const start = kind === 0 ? 0 : Math.min(at, message.length)
        const names = [
          readDhcpName(message, start, message.length)?.name,
          readDhcpv6Name(message, start, message.length),
          ...Object.values(readMdnsName(message, start, message.length, source, 4) ?? {}),
        ]
        for (const each of names) {
          if (each === null || each === undefined) continue
          expect([...each].length).toBeLessThanOrEqual(63)
          expect(each).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u)
          expect(each.trim()).toBe(each)
        }
      }),
      { numRuns: sampleCount(2000) },
    )
  })

  it.each([
    ['plain', 'plain'],
    ['Küche – Lampe 灯', 'Küche – Lampe 灯'],
    ['  two\u00a0 spaces ', 'two spaces'],
    ['red\u001b[31m', null],
    ['line\nend', null],
    ['\u202egpj.exe', null],
    ['\u2028', null],
    ['x'.repeat(64), null],
    ['', null],
    ['   ', null],
  ])('the name %j is shown as %j', (given, expected) => {
    expect(cleanName(new TextEncoder().encode(given))).toBe(expected)
  })
})

it('a book of names has the best of each, and no more than its bound', () => {
  const book = createNameBook(2)
  book.note('a', { name: 'instance', source: 'mdns-service' })
  book.note('a', { name: 'host', source: 'dhcp' })
  book.note('a', { name: 'other', source: 'mdns' })
  expect(book.of('a')?.name).toBe('host')
  book.note('a', { name: 'renamed', source: 'dhcp' })
  expect(book.of('a')?.name).toBe('renamed')
  book.note('b', { name: 'b', source: 'mdns' })
  book.note('c', { name: 'c', source: 'mdns' })
  expect(book.of('a')).toBe(undefined)
})
